// From logits to log-probabilities, their gradients, and a drawn token. One row at a time.
#include <algorithm>
#include <cmath>
#include <vector>

#include "common.h"

constexpr int64_t STRETCH = 1024;  // logits whose exponentials are summed in float32, lane by lane

static float highest(const float *x, int64_t V) {
    v16 top = splat(-INFINITY);
    int64_t i = 0;
    for (; i + 16 <= V; i += 16) {
        v16 v = load16(x + i);
        top = v > top ? v : top;
    }
    float m = max16(top);
    for (; i < V; i++) m = x[i] > m ? x[i] : m;
    return m;
}

// Sum of exp(x * beta - peak) over a stretch.
static float stretch_sum(const float *x, int64_t n, float beta, float peak) {
    v16 sum = {};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) sum += exp16(load16(x + i) * beta - peak);
    if (i < n) {
        v16 rest = exp16(load_some(x + i, n - i) * beta - peak);
        for (int64_t j = n - i; j < 16; j++) rest[j] = 0;
        sum += rest;
    }
    return sum16(sum);
}

struct Normalizer {
    float peak;    // max of x * beta
    double total;  // sum of exp(x * beta - peak)
    float log() const { return (float)(peak + std::log(total)); }
};

static Normalizer normalize(const float *x, int64_t V, float beta, double *sums) {
    float peak = highest(x, V) * beta;
    double total = 0;
    for (int64_t i = 0, s = 0; i < V; i += STRETCH, s++) {
        double part = stretch_sum(x + i, std::min(STRETCH, V - i), beta, peak);
        if (sums) sums[s] = part;
        total += part;
    }
    return {peak, total};
}

static int64_t draw_any(const float *x, int64_t V, float beta, const Normalizer &z, const double *sums, double u) {
    double goal = u * z.total, sum = 0;
    int64_t from = 0, s = 0;
    while (from + STRETCH < V && sum + sums[s] <= goal) sum += sums[s++], from += STRETCH;
    int64_t stop = std::min(from + STRETCH, V), last = -1;
    for (int64_t i = from; i < stop; i += 16) {
        v16 p = exp16((i + 16 <= V ? load16(x + i) : load_some(x + i, V - i)) * beta - z.peak);
        for (int64_t j = i; j < std::min(i + 16, stop); j++) {
            if (p[j - i] > 0) last = j;
            sum += p[j - i];
            if (sum > goal) return j;
        }
    }
    // Summed one by one the stretch may come out a hair shorter: then its last possible token.
    return last >= 0 ? last : std::max_element(x, x + V) - x;
}

struct Candidate {
    float p;
    int32_t token;
};
static bool before(const Candidate &a, const Candidate &b) { return a.p != b.p ? a.p > b.p : a.token < b.token; }

// Draws among the k likeliest tokens, and of those among the fewest that hold a given share of their sum. Tokens are
// counted into bins by their exponential's leading bits, so that only those of the bins on the border are sorted.
class Truncated {
  public:
    Truncated(const float *x, int64_t V, float beta, const Normalizer &z) : V_(V), e_(V + 16), count_(BINS), sum_(BINS) {
        for (int64_t i = 0; i < V; i += 16) store16(&e_[i], exp16(load_up_to(x + i, V - i) * beta - z.peak));
        for (int64_t i = 0; i < V; i++) count_[bin(e_[i])]++, sum_[bin(e_[i])] += e_[i];
    }

    int64_t draw(int64_t k, float share, double u) {
        int64_t kept = V_;
        double whole = 0;
        for (double s : sum_) whole += s;
        if (k > 0 && k < V_) {
            whole = cut([&](double, int64_t count) { return count >= k; });
            kept = k;
        }
        if (share < 1) cut([&](double sum, int64_t count) { return sum >= share * whole || count >= kept; });
        return walk(u);
    }

  private:
    static constexpr int BINS = 4096;
    int64_t V_;
    std::vector<float> e_;
    std::vector<int64_t> count_;
    std::vector<double> sum_;
    Candidate least_ = {-1, 0};  // the last that is kept

    static int bin(float e) {  // of numbers in [0, 1]: sign, exponent and five bits
        uint32_t bits;
        memcpy(&bits, &e, 4);
        return (bits >> 18) & (BINS - 1);
    }

    // Keeps the likeliest tokens up to the first at which `enough`(sum, count) holds; returns their sum.
    template <typename F> double cut(F enough) {
        double sum = 0;
        int64_t count = 0;
        int b = BINS - 1;
        for (; b > 0 && !enough(sum + sum_[b], count + count_[b]); b--) sum += sum_[b], count += count_[b];
        std::vector<Candidate> border;
        for (int64_t i = 0; i < V_; i++)
            if (bin(e_[i]) == b) border.push_back({e_[i], (int32_t)i});
        std::sort(border.begin(), border.end(), before);
        for (const Candidate &c : border) {
            sum += c.p, count++;
            least_ = c;
            if (enough(sum, count)) break;
        }
        return sum;
    }

    bool keeps(int64_t i) const { return !before(least_, {e_[i], (int32_t)i}); }

    // The kept token where their running sum, in the order of the tokens, passes u of the whole.
    int64_t walk(double u) const {
        double whole = 0, sum = 0;
        for (int64_t i = 0; i < V_; i++)
            if (keeps(i)) whole += e_[i];
        int64_t last = 0;
        for (int64_t i = 0; i < V_; i++) {
            if (!keeps(i) || !(e_[i] > 0)) continue;
            sum += e_[last = i];
            if (sum > u * whole) break;
        }
        return last;
    }
};

extern "C" void motet_log_normalizer(int64_t N, int64_t V, const float *logits, float *out) {
#pragma omp parallel for schedule(dynamic) num_threads(threads_for(8.0 * N * V))
    for (int64_t n = 0; n < N; n++) out[n] = normalize(logits + n * V, V, 1.0f, nullptr).log();
}

// logits become the derivative by the logits, given that by the log-probabilities of k targets a row.
extern "C" void motet_logits_gradient(int64_t N, int64_t V, int64_t k, float *logits, const float *log_z,
                                      const int64_t *targets, const float *grad) {
#pragma omp parallel for schedule(dynamic) num_threads(threads_for(8.0 * N * V))
    for (int64_t n = 0; n < N; n++) {
        float *x = logits + n * V, sum = 0;
        for (int64_t i = 0; i < k; i++) sum += grad[n * k + i];
        int64_t i = 0;
        for (; i + 16 <= V; i += 16) store16(x + i, exp16(load16(x + i) - log_z[n]) * -sum);
        if (i < V) store_some(x + i, exp16(load_some(x + i, V - i) - log_z[n]) * -sum, V - i);
        for (int64_t j = 0; j < k; j++) x[targets[n * k + j]] += grad[n * k + j];
    }
}

extern "C" void motet_draw(int64_t N, int64_t V, const float *logits, const float *temperature, const int64_t *top_k,
                           const float *top_p, const float *uniform, int64_t *tokens, float *logprobs) {
#pragma omp parallel for schedule(dynamic) num_threads(threads_for(8.0 * N * V))
    for (int64_t n = 0; n < N; n++) {
        const float *x = logits + n * V;
        bool greedy = temperature[n] <= 0, whole = (top_k[n] <= 0 || top_k[n] >= V) && top_p[n] >= 1;
        float beta = greedy ? 1.0f : 1.0f / temperature[n];
        std::vector<double> sums(V / STRETCH + 1);
        Normalizer z = normalize(x, V, beta, sums.data());
        int64_t token;
        if (greedy) token = std::max_element(x, x + V) - x;
        else if (whole) token = draw_any(x, V, beta, z, sums.data(), uniform[n]);
        else token = Truncated(x, V, beta, z).draw(top_k[n], top_p[n], uniform[n]);
        tokens[n] = token;
        logprobs[n] = x[token] * beta - z.log();
    }
}
