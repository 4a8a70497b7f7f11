// Turning matrices, and sums of outer products: what the backward needs besides products.
#pragma once

#include "lora.h"

// 32 rows d of a panel of 32 columns o, into 32 columns d of rows o.
static void turn_tile(const float *from, int64_t valid, float *to) {
    for (int a = 0; a < 32; a += 16)
        for (int b = 0; b < 32; b += 16) {
            u16v t[16] = {};
            for (int i = 0; i < 16 && a + i < valid; i++) t[i] = (u16v)load16(from + (a + i) * WIDE + b);
            transpose16(t);
            for (int i = 0; i < 16; i++) store16(to + (b + i) * WIDE + a, (v16)t[i]);
        }
}

static void turn_tile(const bf16 *from, int64_t valid, bf16 *to) {
    const uint32_t *words = (const uint32_t *)from;
    const u16v low = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23}, high = low + 8u;
    for (int b = 0; b < 32; b += 16) {
        u16v t[16] = {};
        for (int i = 0; i < 16 && 2 * i < valid; i++) t[i] = *(const u16vu *)(words + i * WIDE + b);
        transpose16(t);
        for (int i = 0; i < 16; i += 2) {
            u16v even = (t[i] & 0xffffu) | (t[i + 1] << 16), odd = (t[i] >> 16) | (t[i + 1] & 0xffff0000u);
            uint32_t *out = (uint32_t *)to + (b + i) / 2 * WIDE;
            *(u16vu *)out = __builtin_shuffle(even, odd, low);
            *(u16vu *)(out + 16) = __builtin_shuffle(even, odd, high);
        }
    }
}

// (rows, columns) with `ld` into float32 (columns, rows) with `ldt`.
template <typename T>
static void turn(const T *from, int64_t rows, int64_t columns, int64_t ld, float *to, int64_t ldt) {
    for (int64_t r = 0; r < rows; r += 16)
        for (int64_t c = 0; c < columns; c += 16) {
            u16v t[16] = {};
            for (int64_t i = 0; i < 16 && r + i < rows; i++) t[i] = (u16v)load_up_to(from + (r + i) * ld + c, columns - c);
            transpose16(t);
            for (int64_t i = 0; i < 16 && c + i < columns; i++) store_up_to(to + (c + i) * ldt + r, (v16)t[i], rows - r);
        }
}

// grad[i][j] += sum over n, in order, of a[n][i] * b[n][j]: R rows i, V vectors of `width` columns j.
template <int R, int V>
static void outer_tile(const float *a, int64_t lda, const float *b, int64_t ldb, int64_t rows, float *grad, int64_t ldg,
                       int64_t width) {
    v16 acc[R][V];
    for (int i = 0; i < R; i++)
        for (int v = 0; v < V; v++) acc[i][v] = load_up_to(grad + i * ldg + 16 * v, width - 16 * v);
    for (int64_t n = 0; n < rows; n++, a += lda, b += ldb) {
        v16 y[V];
        for (int v = 0; v < V; v++) y[v] = load16(b + 16 * v);
        for (int i = 0; i < R; i++) {
            v16 s = splat(a[i]);
            for (int v = 0; v < V; v++) acc[i][v] += s * y[v];
        }
    }
    for (int i = 0; i < R; i++)
        for (int v = 0; v < V; v++) store_up_to(grad + i * ldg + 16 * v, acc[i][v], width - 16 * v);
}

static void add_outer(int64_t size, const float *a, int64_t lda, const float *b, int64_t ldb, int64_t rows, float *grad,
                      int64_t ldg, int64_t width) {
    for (int64_t at = 0; at < size; at += FEW_ROWS)
        by_size<FEW_ROWS>(std::min<int64_t>(FEW_ROWS, size - at), [&](auto part) {
            constexpr int R = decltype(part)::value;
            float *to = grad + at * ldg;
            if (width > 32) outer_tile<R, 3>(a + at, lda, b, ldb, rows, to, ldg, width);
            else if (width > 16) outer_tile<R, 2>(a + at, lda, b, ldb, rows, to, ldg, width);
            else outer_tile<R, 1>(a + at, lda, b, ldb, rows, to, ldg, width);
        });
}
