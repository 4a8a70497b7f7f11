// Attention forward: over the paged cache (decode and prefill) and over a training pack.
#include "packed.h"

template <typename T> struct Pool {  // of one layer
    T *k, *v;
    int64_t K, E;
    int64_t place(int64_t block, int64_t head) const { return (block * K + head) * BLOCK * E; }
};

struct Paged {  // see PagedRows in attention.py
    int64_t sequences;
    const int32_t *bounds, *tables;
    int64_t width;
    const int32_t *first;
};

constexpr int64_t ROWS_EACH = 8;  // rows of one sequence in one task

template <typename T>
static void paged(const T *q, int64_t qs, const Pool<T> &pool, int64_t H, float scale, const Paged &p, T *out) {
    int64_t G = H / pool.K, E = pool.E;
    std::vector<int64_t> starts{0};  // of each sequence's tasks
    double work = 0;
    for (int64_t b = 0; b < p.sequences; b++) {
        int64_t rows = p.bounds[b + 1] - p.bounds[b];
        starts.push_back(starts.back() + ceil_div(rows, ROWS_EACH));
        work += 2.0 * rows * (p.first[b] + rows) * H * E;
    }
#pragma omp parallel num_threads(threads_for(work))
    {
        Keys<T> at;
        std::vector<float> score, query(G * E + 16), result(G * E + 16), log_sum(G);
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < starts.back() * pool.K; task++) {
            int64_t head = task % pool.K, chunk = task / pool.K;
            int64_t b = std::upper_bound(starts.begin(), starts.end(), chunk) - starts.begin() - 1;
            int64_t from = p.bounds[b] + (chunk - starts[b]) * ROWS_EACH;
            int64_t stop = std::min<int64_t>(from + ROWS_EACH, p.bounds[b + 1]), before = p.first[b] - p.bounds[b];
            int64_t blocks = ceil_div(before + stop, BLOCK);
            at.k.resize(blocks), at.v.resize(blocks);
            for (int64_t i = 0; i < blocks; i++) {
                int64_t place = pool.place(p.tables[b * p.width + i], head);
                at.k[i] = pool.k + place, at.v[i] = pool.v + place;
            }
            for (int64_t n = from; n < stop; n++) {
                widen_row(q + n * qs + head * G * E, query.data(), G * E);
                attend(query.data(), at, before + n + 1, G, E, scale, score, result.data(), log_sum.data());
                narrow_row(result.data(), out + (n * H + head * G) * E, G * E);
            }
        }
    }
}

// Rows of k and v into their places: k with the width first.
template <typename T>
static void write(const Pool<T> &pool, int64_t N, const T *k, int64_t ks, const T *v, int64_t vs, const int64_t *places) {
    constexpr int64_t PAIR = sizeof(T) == 2 ? 2 : 1;
#pragma omp parallel for num_threads(threads_for(16.0 * N * pool.K * pool.E))
    for (int64_t n = 0; n < N; n++)
        for (int64_t head = 0; head < pool.K; head++) {
            int64_t lane = places[n] % BLOCK, at = pool.place(places[n] / BLOCK, head);
            const T *from = k + n * ks + head * pool.E;
            for (int64_t e = 0; e < pool.E; e++)
                pool.k[at + (e / PAIR * BLOCK + lane) * PAIR + e % PAIR] = from[e];
            memcpy(pool.v + at + lane * pool.E, v + n * vs + head * pool.E, sizeof(T) * pool.E);
        }
}

constexpr int64_t SEQUENCES_EACH = 8;  // consecutive sequences in one task: what they share is gathered once

template <typename T>
static void packed_forward(const Tensors<T> &t, const Packed &p, T *out, float *log_sum) {
    int64_t G = t.G(), E = t.E, H = t.H;
    std::vector<int64_t> starts;
    for (int64_t g = 0; g < p.groups; g++)
        for (int64_t s = p.group_bounds[g]; s < p.group_bounds[g + 1]; s += SEQUENCES_EACH) starts.push_back(s);
    int64_t tasks = starts.size();
    starts.push_back(p.group_bounds[p.groups]);
#pragma omp parallel
    {
        Gathered at;
        std::vector<float> score, query(G * E + 16), result(G * E + 16);
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < tasks * t.K; task++) {
            int64_t head = task % t.K, i = task / t.K;
            at.forget();
            for (int64_t s = starts[i]; s < starts[i + 1]; s++) {
                int64_t keys = p.keys(s);
                at.take(t, p, s, head, false);
                for (int64_t pos = keys - p.query_counts[s]; pos < keys; pos++) {
                    int64_t n = p.rows(s)[pos];
                    widen_row(t.q + n * t.qs + head * G * E, query.data(), G * E);
                    attend(query.data(), at.forward, pos + 1, G, E, t.scale, score, result.data(),
                           log_sum + n * H + head * G);
                    narrow_row(result.data(), out + (n * H + head * G) * E, G * E);
                }
            }
        }
    }
}

#define EITHER(CALL)                                                                                                   \
    if (dtype == F32) {                                                                                                \
        typedef float T;                                                                                               \
        CALL;                                                                                                          \
    } else {                                                                                                           \
        typedef bf16 T;                                                                                                \
        CALL;                                                                                                          \
    }

extern "C" {
void motet_paged_attention(int dtype, const void *q, int64_t qs, void *k, void *v, int64_t H, int64_t K, int64_t E,
                           float scale, int64_t sequences, const int32_t *bounds, const int32_t *tables,
                           int64_t width, const int32_t *first, void *out) {
    Paged p{sequences, bounds, tables, width, first};
    EITHER(paged((const T *)q, qs, (Pool<T>{(T *)k, (T *)v, K, E}), H, scale, p, (T *)out));
}
void motet_kv_write(int dtype, void *k_pool, void *v_pool, int64_t K, int64_t E, int64_t N, const void *k, int64_t ks,
                    const void *v, int64_t vs, const int64_t *places) {
    EITHER(write((Pool<T>{(T *)k_pool, (T *)v_pool, K, E}), N, (const T *)k, ks, (const T *)v, vs, places));
}
void motet_packed_forward(int dtype, const void *q, int64_t qs, const void *k, int64_t ks, const void *v, int64_t vs,
                          int64_t H, int64_t K, int64_t E, float scale, int64_t groups, const int32_t *group_bounds,
                          const int32_t *key_bounds, const int32_t *key_rows, const int32_t *query_counts, void *out,
                          float *log_sum) {
    Packed p{groups, group_bounds, key_bounds, key_rows, query_counts};
    EITHER(packed_forward((Tensors<T>{(const T *)q, (const T *)k, (const T *)v, qs, ks, vs, H, K, E, scale}), p,
                          (T *)out, log_sum));
}
}
