// An adapter's two products. Shrink: h = x A, chains over D_in. Expand: y += scale h B, chains over the rank, begun
// from y. Neither looks at more than one row for one row's numbers.
#pragma once

#include <algorithm>
#include <type_traits>

#include "common.h"

constexpr int FEW_ROWS = MAX_ROWS < 8 ? MAX_ROWS : 8;

struct Adapters {  // the rows of a batch by adapter; see LoraBatch in lora.py
    int64_t count;
    const int64_t *bounds;     // (count + 1)
    const int64_t (*table)[4];  // addresses of A, B, grad A, grad B at this site; 0 is absent
    const int64_t *ranks;
    const float *scales;
};

// h[R][16 V] = (h if `add`) + x[K][R] * a[K][16 V]; the steps of x lie `step` floats apart, the rows are neighbours.
template <int R, int V, typename T>
static void shrink_tile(const float *x, int64_t step, const T *a, int64_t lda, int64_t safe, int64_t K, int width,
                        bool add, float *h, int64_t ldh) {
    v16 acc[R][V] = {};
    for (int i = 0; add && i < R; i++)
        for (int j = 0; j < V; j++) acc[i][j] = load_up_to(h + i * ldh + 16 * j, width - 16 * j);
    auto run = [&](int64_t k, const T *row) {
        v16 b[V];
        for (int j = 0; j < V; j++) b[j] = load16(row + 16 * j);
        for (int i = 0; i < R; i++) {
            v16 s = splat(x[k * step + i]);
            for (int j = 0; j < V; j++) acc[i][j] += s * b[j];
        }
    };
    for (int64_t k = 0; k < safe; k++) {
        for (int line = 0; line < 16 * V * (int)sizeof(T); line += 64)
            __builtin_prefetch((const char *)(a + k * lda) + 2048 + line);
        run(k, a + k * lda);
    }
    for (int64_t k = safe; k < K; k++) {  // here a full vector would read past the end of A
        T row[16 * V] = {};
        memcpy(row, a + k * lda, sizeof(T) * width);
        run(k, row);
    }
    for (int i = 0; i < R; i++)
        for (int j = 0; j < V; j++) store_up_to(h + i * ldh + 16 * j, acc[i][j], width - 16 * j);
}

// Calls f with std::integral_constant<int, n>, n of 1 to R.
template <int R, typename F> static void by_size(int n, F f) {
    if constexpr (R > 0) {
        if (n == R) f(std::integral_constant<int, R>());
        else by_size<R - 1>(n, f);
    }
}

// Any number of rows and any width of A.
template <typename T>
static void shrink(int64_t rows, const float *x, int64_t step, const T *a, int64_t K, int64_t width, bool add, float *h,
                   int64_t ldh) {
    for (int64_t c = 0; c < width; c += 48) {
        int left = std::min<int64_t>(48, width - c), vectors = ceil_div(left, 16);
        int64_t over = K * width - c - 16 * vectors, safe = over < 0 ? 0 : std::min(K, over / width + 1);
        for (int64_t i = 0; i < rows; i += FEW_ROWS)
            by_size<FEW_ROWS>(std::min<int64_t>(FEW_ROWS, rows - i), [&](auto size) {
                constexpr int R = decltype(size)::value;
                float *to = h + i * ldh + c;
                if (vectors == 1) shrink_tile<R, 1>(x + i, step, a + c, width, safe, K, left, add, to, ldh);
                else if (vectors == 2) shrink_tile<R, 2>(x + i, step, a + c, width, safe, K, left, add, to, ldh);
                else shrink_tile<R, 3>(x + i, step, a + c, width, safe, K, left, add, to, ldh);
            });
    }
}

// h (rows, width) times scale, and the same as [width][rows], which is how expand reads it.
static inline void scale_and_turn(int64_t rows, int64_t width, float scale, float *h, int64_t ldh, float *turned) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j++) turned[j * rows + i] = h[i * ldh + j] *= scale;
}

// c[R][32] += h[rank][R] * b[rank][32].
template <int R, typename T>
static void expand_tile(const float *h, const T *b, int64_t ldb, int64_t rank, float *c) {
    v16 acc[R][2];
    for (int i = 0; i < R; i++) acc[i][0] = load16(c + i * WIDE), acc[i][1] = load16(c + i * WIDE + 16);
    for (int64_t r = 0; r < rank; r++, b += ldb, h += R) {
        for (int line = 0; line < WIDE; line += 64 / sizeof(T)) __builtin_prefetch(b + WIDE + line);  // the next panel's
        v16 b0 = load16(b), b1 = load16(b + 16);
        for (int i = 0; i < R; i++) {
            v16 s = splat(h[i]);
            acc[i][0] += s * b0;
            acc[i][1] += s * b1;
        }
    }
    for (int i = 0; i < R; i++) store16(c + i * WIDE, acc[i][0]), store16(c + i * WIDE + 16, acc[i][1]);
}

template <typename T>
static void expand_rows(int rows, const float *h, const T *b, int64_t ldb, int64_t rank, float *c) {
    by_size<MAX_ROWS>(rows, [&](auto size) { expand_tile<decltype(size)::value>(h, b, ldb, rank, c); });
}

// The share of one adapter in 32 columns from `column` of `width`; each part of the columns has h of its own.
template <typename T>
static void expand(int rows, const float *h, const T *b, int64_t width, int64_t rank, int64_t parts,
                   const int64_t *splits, int64_t column, float *c, float *spare) {
    int64_t start = 0;
    for (int64_t p = 0; p < parts; start += splits[p], p++) {
        int64_t from = std::max(column, start), stop = std::min(start + splits[p], column + WIDE);
        if (from >= stop) continue;
        const float *h_part = h + p * rank * rows;
        if (stop - from == WIDE) {
            expand_rows(rows, h_part, b + column, width, rank, c);
            continue;
        }
        T *copy = (T *)spare;  // a panel cut by a part's end: columns of others are zeros, which add nothing
        memset(copy, 0, sizeof(T) * rank * WIDE);
        for (int64_t r = 0; r < rank; r++)
            memcpy(copy + r * WIDE + from - column, b + r * width + from, sizeof(T) * (stop - from));
        expand_rows(rows, h_part, copy, WIDE, rank, c);
    }
}
