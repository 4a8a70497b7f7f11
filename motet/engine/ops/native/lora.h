// An adapter's two products. Shrink: h = scale * x A, chains over D_in. Expand: y += h B, chains over the rank,
// begun from y. Neither looks at more than one row for one row's numbers.
#pragma once

#include "common.h"

constexpr int FEW_ROWS = MAX_ROWS < 8 ? MAX_ROWS : 8;

struct Adapters {  // the rows of a batch by adapter; see LoraBatch in lora.py
    int64_t count;
    const int64_t *bounds;     // (count + 1)
    const int64_t (*table)[4];  // addresses of A, B, grad A, grad B at this site; 0 is absent
    const int64_t *ranks;
    const float *scales;
};

// h[R][16 V] = scale * x[R][K] * a[K][16 V]; x's rows and steps of k lie xr and xk floats apart.
template <int R, int V, typename T>
static void shrink_tile(const float *x, int64_t xr, int64_t xk, const T *a, int64_t lda, int64_t safe, int64_t K,
                        int width, float scale, float *h, int64_t ldh) {
    v16 acc[R][V] = {};
    auto step = [&](int64_t k, const T *row) {
        v16 b[V];
        for (int j = 0; j < V; j++) b[j] = load16(row + 16 * j);
        for (int i = 0; i < R; i++) {
            v16 s = splat(x[i * xr + k * xk]);
            for (int j = 0; j < V; j++) acc[i][j] += s * b[j];
        }
    };
    for (int64_t k = 0; k < safe; k++) {
        for (int line = 0; line < 16 * V * (int)sizeof(T); line += 64)
            __builtin_prefetch((const char *)(a + k * lda) + 2048 + line);
        step(k, a + k * lda);
    }
    for (int64_t k = safe; k < K; k++) {  // here a full vector would read past the end of A
        T row[16 * V] = {};
        memcpy(row, a + k * lda, sizeof(T) * width);
        step(k, row);
    }
    for (int i = 0; i < R; i++)
        for (int j = 0; j < V; j++) {
            v16 y = acc[i][j] * scale;
            int n = width - 16 * j;
            if (n >= 16) store16(h + i * ldh + 16 * j, y);
            else store_some(h + i * ldh + 16 * j, y, n);
        }
}

template <typename T, int V, int R>
static void shrink_rows(int rows, const float *x, int64_t xr, int64_t xk, const T *a, int64_t lda, int64_t safe,
                        int64_t K, int width, float scale, float *h, int64_t ldh) {
    if constexpr (R > 0) {
        if (rows == R) shrink_tile<R, V>(x, xr, xk, a, lda, safe, K, width, scale, h, ldh);
        else shrink_rows<T, V, R - 1>(rows, x, xr, xk, a, lda, safe, K, width, scale, h, ldh);
    }
}

// Any number of rows and any width of A.
template <typename T>
static void shrink(int64_t rows, const float *x, int64_t xr, int64_t xk, const T *a, int64_t K, int64_t width,
                   float scale, float *h, int64_t ldh) {
    for (int64_t c = 0; c < width; c += 48) {
        int64_t left = width - c < 48 ? width - c : 48, vectors = ceil_div(left, 16);
        int64_t safe = (K * width - c - 16 * vectors) / width + 1;
        if (K * width < c + 16 * vectors) safe = 0;
        if (safe > K) safe = K;
        for (int64_t i = 0; i < rows; i += FEW_ROWS) {
            int n = rows - i < FEW_ROWS ? rows - i : FEW_ROWS;
            auto run = [&](auto pick) {
                pick(n, x + i * xr, xr, xk, a + c, width, safe, K, (int)left, scale, h + i * ldh + c, ldh);
            };
            if (vectors == 1) run(shrink_rows<T, 1, FEW_ROWS>);
            else if (vectors == 2) run(shrink_rows<T, 2, FEW_ROWS>);
            else run(shrink_rows<T, 3, FEW_ROWS>);
        }
    }
}

// c[R][32] += h[R][rank] * b[rank][32].
template <int R, typename T>
static void expand_tile(const float *h, int64_t ldh, const T *b, int64_t ldb, int64_t rank, float *c) {
    v16 acc[R][2];
    for (int i = 0; i < R; i++) acc[i][0] = load16(c + i * WIDE), acc[i][1] = load16(c + i * WIDE + 16);
    for (int64_t r = 0; r < rank; r++, b += ldb) {
        for (int line = 0; line < WIDE; line += 64 / sizeof(T)) __builtin_prefetch(b + WIDE + line);  // the next panel's
        v16 b0 = load16(b), b1 = load16(b + 16);
        for (int i = 0; i < R; i++) {
            v16 s = splat(h[i * ldh + r]);
            acc[i][0] += s * b0;
            acc[i][1] += s * b1;
        }
    }
    for (int i = 0; i < R; i++) store16(c + i * WIDE, acc[i][0]), store16(c + i * WIDE + 16, acc[i][1]);
}

template <typename T, int R>
static void expand_rows(int rows, const float *h, int64_t ldh, const T *b, int64_t ldb, int64_t rank, float *c) {
    if constexpr (R > 0) {
        if (rows == R) expand_tile<R>(h, ldh, b, ldb, rank, c);
        else expand_rows<T, R - 1>(rows, h, ldh, b, ldb, rank, c);
    }
}

// The share of one adapter in 32 columns from `column` of `width`; each part of the columns has h of its own.
template <typename T>
static void expand(int rows, const float *h, int64_t ldh, const T *b, int64_t width, int64_t rank, int64_t parts,
                   const int64_t *splits, int64_t column, float *c, float *spare) {
    int64_t start = 0;
    for (int64_t p = 0; p < parts; start += splits[p], p++) {
        int64_t from = column > start ? column : start;
        int64_t stop = start + splits[p] < column + WIDE ? start + splits[p] : column + WIDE;
        if (from >= stop) continue;
        if (stop - from == WIDE) {
            expand_rows<T, MAX_ROWS>(rows, h + p * rank, ldh, b + column, width, rank, c);
            continue;
        }
        T *copy = (T *)spare;  // a panel cut by a part's end: columns of others are zeros, which add nothing
        memset(copy, 0, sizeof(T) * rank * WIDE);
        for (int64_t r = 0; r < rank; r++)
            memcpy(copy + r * WIDE + from - column, b + r * width + from, sizeof(T) * (stop - from));
        expand_rows<T, MAX_ROWS>(rows, h + p * rank, ldh, copy, WIDE, rank, c);
    }
}
