// Attention's way back over a training pack. Groups and key heads are apart; within one, order is kept, so the
// gradients of rows that sequences share are sums in the order of the sequences.
#include "packed.h"

constexpr int64_t QUERIES = 64;  // taken at once: their probabilities stay in cache

// grad[t][e] += sum over lines, in order, of weight[line][t] * value[line][e], for 4 keys t and 16 W widths e.
template <int W>
static void spread_tile(const float *weight, int64_t stride, const float *value, int64_t lines, int64_t E,
                        float *const *grad) {
    v16 acc[4][W];
    for (int i = 0; i < 4; i++)
        for (int w = 0; w < W; w++) acc[i][w] = load16(grad[i] + 16 * w);
    for (int64_t line = 0; line < lines; line++) {
        v16 v[W];
        for (int w = 0; w < W; w++) v[w] = load16(value + line * E + 16 * w);
        for (int i = 0; i < 4; i++) {
            v16 p = splat(weight[line * stride + i]);
            for (int w = 0; w < W; w++) acc[i][w] += p * v[w];
        }
    }
    for (int i = 0; i < 4; i++)
        for (int w = 0; w < W; w++) store16(grad[i] + 16 * w, acc[i][w]);
}

// The same for all keys; grad's rows are given, those past the keys are spare. A line sees no key past its own, so
// for each four keys only the lines from the first that sees one of them on are run through.
static void spread(const float *weight, int64_t stride, const float *value, int64_t lines, int64_t G, int64_t first_key,
                   int64_t keys, int64_t E, const std::vector<float *> &grad) {
    for (int64_t t = 0; t < keys; t += 4) {
        int64_t skip = std::min(lines, std::max<int64_t>(0, t - first_key) * G);
        const float *w = weight + skip * stride + t, *v = value + skip * E;
        float *rows[4];
        int64_t e = 0;
        auto from = [&] {
            for (int i = 0; i < 4; i++) rows[i] = grad[t + i] + e;
            return rows;
        };
        for (; e + 64 <= E; e += 64) spread_tile<4>(w, stride, v + e, lines - skip, E, from());
        for (; e + 16 <= E; e += 16) spread_tile<1>(w, stride, v + e, lines - skip, E, from());
        for (; e < E; e++)  // a width that is no multiple of 16
            for (int i = 0; i < 4; i++)
                for (int64_t line = skip; line < lines; line++)
                    grad[t + i][e] += weight[line * stride + t + i] * value[line * E + e];
    }
}

template <typename T> class Back {
  public:
    Back(const Tensors<T> &t, const Packed &p, const T *out, const T *d_out, const float *log_sum, T *dq, float *dk,
         float *dv)
        : t_(t), p_(p), out_(out), d_out_(d_out), log_sum_(log_sum), dq_(dq), dk_(dk), dv_(dv), row_(t.G() * t.E + 16),
          spare_(t.E + 16) {}

    void group(int64_t g, int64_t head) {
        at_.forget();
        for (int64_t s = p_.group_bounds[g]; s < p_.group_bounds[g + 1]; s++) {
            at_.take(t_, p_, s, head, true);
            int64_t first = p_.keys(s) - p_.query_counts[s];
            for (int64_t from = first; from < p_.keys(s); from += QUERIES)
                queries(s, head, from, std::min(from + QUERIES, p_.keys(s)));
        }
    }

  private:
    Tensors<T> t_;
    Packed p_;
    const T *out_, *d_out_;
    const float *log_sum_;
    T *dq_;
    float *dk_, *dv_;
    Gathered at_;
    std::vector<float> query_, d_, p_of_, ds_, row_, spare_;
    std::vector<float *> dk_rows_, dv_rows_;

    // The queries at positions [from, stop) of a sequence.
    void queries(int64_t s, int64_t head, int64_t from, int64_t stop) {
        int64_t G = t_.G(), E = t_.E, stride = ceil_div(stop, BLOCK) * BLOCK, lines = (stop - from) * G;
        query_.resize(lines * E + 16), d_.resize(lines * E + 16);
        p_of_.resize(lines * stride + 16), ds_.resize(lines * stride + 16);
        for (int64_t pos = from; pos < stop; pos++) one(p_.rows(s)[pos], head, pos, (pos - from) * G, stride);
        dk_rows_.assign(stride, spare_.data()), dv_rows_.assign(stride, spare_.data());
        for (int64_t i = 0; i < stop; i++) {
            int64_t place = (p_.rows(s)[i] * t_.K + head) * E;
            dk_rows_[i] = dk_ + place, dv_rows_[i] = dv_ + place;
        }
        spread(ds_.data(), stride, query_.data(), lines, G, from, stop, E, dk_rows_);
        spread(p_of_.data(), stride, d_.data(), lines, G, from, stop, E, dv_rows_);
    }

    // One query's probabilities p, ds = p * (dp - sum(d * out)) * scale, and dq = sum_t ds k.
    void one(int64_t n, int64_t head, int64_t pos, int64_t line, int64_t stride) {
        int64_t G = t_.G(), E = t_.E, place = (n * t_.H + head * G) * E, blocks = ceil_div(pos + 1, BLOCK);
        float *q = query_.data() + line * E, *d = d_.data() + line * E;
        widen_row(t_.q + n * t_.qs + head * G * E, q, G * E);
        widen_row(d_out_ + place, d, G * E);
        widen_row(out_ + place, row_.data(), G * E);
        for (int64_t g = 0; g < G; g += 4)
            by_heads(std::min<int64_t>(4, G - g), [&](auto heads) {
                constexpr int H = decltype(heads)::value;
                float *p = p_of_.data() + (line + g) * stride, *ds = ds_.data() + (line + g) * stride;
                const float *const *k = at_.forward.k.data(), *const *v = at_.crossed.k.data();
                dots<H>(q + g * E, k, v, blocks, E, t_.scale, p, stride);
                dots<H>(d + g * E, v, at_.crossed.v.data(), blocks, E, 1.0f, ds, stride);
                for (int h = 0; h < H; h++) {
                    float pull = inner(d + (g + h) * E, row_.data() + (g + h) * E, E);
                    bend(p + h * stride, ds + h * stride, pos + 1, stride, log_sum_[n * t_.H + head * G + g + h], pull);
                }
                weigh<H>(ds, stride, at_.crossed.v.data(), pos + 1, E, row_.data() + g * E);
            });
        narrow_row(row_.data(), dq_ + place, G * E);
    }

    void bend(float *p, float *ds, int64_t keys, int64_t stride, float log_sum, float pull) const {
        for (int64_t b = 0; b < ceil_div(keys, BLOCK) * BLOCK; b += BLOCK) {
            v16 chance = exp16(load16(p + b) - log_sum);
            store16(p + b, chance);
            store16(ds + b, chance * (load16(ds + b) - pull) * t_.scale);
        }
        for (int64_t t = keys; t < stride; t++) p[t] = ds[t] = 0;
    }

    static float inner(const float *a, const float *b, int64_t E) {
        v16 sum = {};
        int64_t e = 0;
        for (; e + 16 <= E; e += 16) sum += load16(a + e) * load16(b + e);
        if (e < E) sum += load_some(a + e, E - e) * load_some(b + e, E - e);
        return sum16(sum);
    }
};

template <typename T>
static void packed_backward(const Tensors<T> &t, const Packed &p, const T *out, const T *d_out, const float *log_sum,
                            T *dq, float *dk, float *dv) {
#pragma omp parallel
    {
        Back<T> back(t, p, out, d_out, log_sum, dq, dk, dv);
#pragma omp for schedule(dynamic) collapse(2)
        for (int64_t g = 0; g < p.groups; g++)
            for (int64_t head = 0; head < t.K; head++) back.group(g, head);
    }
}

// dq (N, H, E) of q's type; dk and dv (N, K, E) float32, zero before the call. out and d_out are contiguous.
extern "C" void motet_packed_backward(int dtype, const void *q, int64_t qs, const void *k, int64_t ks, const void *v,
                                      int64_t vs, const void *out, const void *d_out, int64_t H, int64_t K, int64_t E,
                                      float scale, int64_t groups, const int32_t *group_bounds,
                                      const int32_t *key_bounds, const int32_t *key_rows, const int32_t *query_counts,
                                      const float *log_sum, void *dq, float *dk, float *dv) {
    Packed p{groups, group_bounds, key_bounds, key_rows, query_counts};
    if (dtype == F32) {
        Tensors<float> t{(const float *)q, (const float *)k, (const float *)v, qs, ks, vs, H, K, E, scale};
        packed_backward(t, p, (const float *)out, (const float *)d_out, log_sum, (float *)dq, dk, dv);
    } else {
        Tensors<bf16> t{(const bf16 *)q, (const bf16 *)k, (const bf16 *)v, qs, ks, vs, H, K, E, scale};
        packed_backward(t, p, (const bf16 *)out, (const bf16 *)d_out, log_sum, (bf16 *)dq, dk, dv);
    }
}
