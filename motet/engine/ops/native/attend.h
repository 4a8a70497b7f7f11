// Attention of one query over keys in blocks of 16 positions: the routine of decode, prefill and training alike.
//
// For a query and the G heads that share a key head: scores, one chain over the head's width; softmax in float32,
// summed lane by lane over the blocks and then across; output, one chain over the keys. Nothing depends on other
// queries, nor on whether keys are float32 or the same numbers in bfloat16.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "common.h"

constexpr int64_t BLOCK = 16;

// One block of keys has the width first: float32 (E, 16), bfloat16 (E/2, 16, 2). Values are rows (16, E).
template <typename T> struct Keys {
    std::vector<const T *> k, v;
};

// acc[g][j] += q[g][e] * k[j][e] for the two widths e, e + 1.
template <int G, int J>
static inline void dot_step(const float *q, int64_t E, const float *const *k, int64_t e, v16 (&acc)[G][J]) {
    for (int64_t at = e; at < e + 2; at++)
        for (int j = 0; j < J; j++) {
            v16 keys = load16(k[j] + at * BLOCK);
            for (int g = 0; g < G; g++) acc[g][j] += q[g * E + at] * keys;
        }
}
template <int G, int J>
static inline void dot_step(const float *q, int64_t E, const bf16 *const *k, int64_t e, v16 (&acc)[G][J]) {
    for (int j = 0; j < J; j++) {
        u16v both = *(const u16vu *)(k[j] + e * BLOCK);
        v16 even = (v16)(both << 16), odd = (v16)(both & 0xffff0000u);
        for (int g = 0; g < G; g++) acc[g][j] += q[g * E + e] * even;
        for (int g = 0; g < G; g++) acc[g][j] += q[g * E + e + 1] * odd;
    }
}

static inline void fetch(const bf16 *two_widths) { __builtin_prefetch(two_widths, 0, 2); }
static inline void fetch(const float *two_widths) {
    __builtin_prefetch(two_widths, 0, 2);
    __builtin_prefetch(two_widths + BLOCK, 0, 2);
}

// out[g][16 b + lane] = scale * sum_e q[g][e] k[b][e][lane]; J blocks at once keep the chains apart. Blocks lie
// anywhere, so what is needed soon is fetched here: `soon` are the next keys or these keys' values.
template <int G, int J, typename T>
static inline void dot_blocks(const float *q, const T *const *k, int64_t E, float scale, float *out, int64_t stride,
                              const T *const *soon, const T *const *then) {
    v16 acc[G][J] = {};
    for (int64_t e = 0; e < E; e += 2) {
        for (int j = 0; j < J; j++) {
            fetch(soon[j] + e * BLOCK);
            fetch(then[j] + e * BLOCK);
        }
        dot_step<G, J>(q, E, k, e, acc);
    }
    for (int g = 0; g < G; g++)
        for (int j = 0; j < J; j++) store16(out + g * stride + j * BLOCK, acc[g][j] * scale);
}

// Scores of all blocks of keys; `values` are what will be read after them.
template <int G, typename T>
static void dots(const float *q, const T *const *k, const T *const *values, int64_t blocks, int64_t E, float scale,
                 float *out, int64_t stride) {
    int64_t b = 0;
    for (; b + 4 <= blocks; b += 4)
        dot_blocks<G, 4>(q, k + b, E, scale, out + b * BLOCK, stride, b + 8 <= blocks ? k + b + 4 : k + b, values + b);
    for (; b < blocks; b++) dot_blocks<G, 1>(q, k + b, E, scale, out + b * BLOCK, stride, k + b, values + b);
}

// 32 numbers as two vectors: the halves in float32, the evens and the odds in bfloat16, put right by `in_order`.
static inline void load32(const float *p, v16 &a, v16 &b) { a = load16(p), b = load16(p + 16); }
static inline void load32(const bf16 *p, v16 &a, v16 &b) {
    u16v both = *(const u16vu *)p;
    a = (v16)(both << 16), b = (v16)(both & 0xffff0000u);
}
static inline void in_order(const float *, v16 &, v16 &) {}
static inline void in_order(const bf16 *, v16 &a, v16 &b) {
    const i16v low = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
    v16 first = __builtin_shuffle(a, b, low), second = __builtin_shuffle(a, b, low + 8);
    a = first, b = second;
}

// out[g][e] = sum_t weight[g][t] rows[t][e], t ascending, for 32 W widths from e.
template <int G, int W, typename T>
static void weigh_wide(const float *weight, int64_t stride, const T *const *rows, int64_t keys, int64_t E, int64_t e,
                       float *out) {
    v16 acc[G][2 * W] = {};
    for (int64_t t = 0; t < keys; t++) {
        const T *row = rows[t / BLOCK] + (t % BLOCK) * E + e;
        v16 r[2 * W];
        for (int w = 0; w < W; w++) load32(row + 32 * w, r[2 * w], r[2 * w + 1]);
        for (int g = 0; g < G; g++) {
            v16 p = splat(weight[g * stride + t]);
            for (int w = 0; w < 2 * W; w++) acc[g][w] += p * r[w];
        }
    }
    for (int g = 0; g < G; g++)
        for (int w = 0; w < W; w++) {
            in_order(rows[0], acc[g][2 * w], acc[g][2 * w + 1]);
            store16(out + g * E + e + 32 * w, acc[g][2 * w]), store16(out + g * E + e + 32 * w + 16, acc[g][2 * w + 1]);
        }
}

template <int G, typename T>
static void weigh(const float *weight, int64_t stride, const T *const *rows, int64_t keys, int64_t E, float *out) {
    int64_t e = 0;
    for (; e + 64 <= E; e += 64) weigh_wide<G, 2>(weight, stride, rows, keys, E, e, out);
    for (; e + 32 <= E; e += 32) weigh_wide<G, 1>(weight, stride, rows, keys, E, e, out);
    for (; e < E; e += 16) {  // a width that is no multiple of 32
        int width = (int)std::min<int64_t>(16, E - e);
        v16 acc[G] = {};
        for (int64_t t = 0; t < keys; t++) {
            const T *at = rows[t / BLOCK] + (t % BLOCK) * E + e;
            v16 row = width == 16 ? load16(at) : load_some(at, width);
            for (int g = 0; g < G; g++) acc[g] += weight[g * stride + t] * row;
        }
        for (int g = 0; g < G; g++) store_some(out + g * E + e, acc[g], width);
    }
}

struct Softmax {
    float peak, sum;
};

// Scores become exp(score - peak); what stands past the keys becomes 0.
static Softmax soften(float *score, int64_t keys) {
    int64_t blocks = ceil_div(keys, BLOCK);
    for (int64_t t = keys; t < blocks * BLOCK; t++) score[t] = -INFINITY;
    v16 top = load16(score), sum = {};
    for (int64_t b = 1; b < blocks; b++) {
        v16 x = load16(score + b * BLOCK);
        top = x > top ? x : top;
    }
    float peak = max16(top);
    for (int64_t b = 0; b < blocks; b++) {
        v16 p = exp16(load16(score + b * BLOCK) - peak);
        sum += p;
        store16(score + b * BLOCK, p);
    }
    return {peak, sum16(sum)};
}

// Calls f with std::integral_constant<int, n>, n of 1 to 4.
template <typename F> static void by_heads(int64_t n, F f) {
    if (n == 1) f(std::integral_constant<int, 1>());
    else if (n == 2) f(std::integral_constant<int, 2>());
    else if (n == 3) f(std::integral_constant<int, 3>());
    else f(std::integral_constant<int, 4>());
}

// One query of G heads, (G, E), over its first `keys` keys; log_sum[g] gets the log of the sum of exp(score).
template <typename T>
static void attend(const float *q, const Keys<T> &at, int64_t keys, int64_t G, int64_t E, float scale,
                   std::vector<float> &score, float *out, float *log_sum) {
    int64_t blocks = ceil_div(keys, BLOCK), stride = blocks * BLOCK;
    if ((int64_t)score.size() < 4 * stride) score.resize(4 * stride + 1024);
    for (int64_t g = 0; g < G; g += 4)
        by_heads(std::min<int64_t>(4, G - g), [&](auto heads) {
            constexpr int H = decltype(heads)::value;
            dots<H>(q + g * E, at.k.data(), at.v.data(), blocks, E, scale, score.data(), stride);
            float sum[H];
            for (int h = 0; h < H; h++) {
                Softmax soft = soften(score.data() + h * stride, keys);
                sum[h] = soft.sum;
                log_sum[g + h] = soft.peak + logf(soft.sum);
            }
            weigh<H>(score.data(), stride, at.v.data(), keys, E, out + g * E);
            for (int h = 0; h < H; h++)
                for (int64_t e = 0; e < E; e++) out[(g + h) * E + e] /= sum[h];
        });
}

template <typename T> static void widen_row(const T *in, float *out, int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) store16(out + i, load16(in + i));
    for (; i < n; i++) out[i] = load1(in + i);
}
template <typename T> static void narrow_row(const float *in, T *out, int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) store16(out + i, load16(in + i));
    for (; i < n; i++) store1(out + i, in[i]);
}
