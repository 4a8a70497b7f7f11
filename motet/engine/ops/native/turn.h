// Turning matrices, and sums of outer products: what the backward needs besides products.
#pragma once

#include <vector>

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

struct Stretch {  // rows that lie in a packed block: element i of row n is at[i * step + n]
    const float *at;
    int64_t step, rows;
};

// Elements in a tile: enough sums that the multiply-adds do not wait for each other.
constexpr int outer_height(int vectors) { return FEW_ROWS < 8 ? FEW_ROWS : vectors == 1 ? 16 : vectors == 2 ? 12 : 8; }

// sum[i][j] += over the stretches' rows n, in order, element `first` + i of n times h[n][j]: R elements i, V vectors of
// columns j, of which `width` count.
template <int R, int V>
static void outer_tile(const std::vector<Stretch> &stretches, int64_t first, const float *h, int64_t ldh, float *sum,
                       int64_t lds, int64_t width) {
    v16 acc[R][V];
    for (int i = 0; i < R; i++)
        for (int v = 0; v < V; v++) acc[i][v] = load_up_to(sum + i * lds + 16 * v, width - 16 * v);
    for (size_t part = 0; part < stretches.size(); part++) {
        const Stretch &s = stretches[part], &later = stretches[std::min(part + 2, stretches.size() - 1)];
        // A stretch is shorter than what the hardware needs to see it coming.
        for (int64_t at = 0; at < R * later.step; at += 16) __builtin_prefetch(later.at + first * later.step + at);
        const float *a = s.at + first * s.step;
        for (int64_t n = 0; n < s.rows; n++, a++, h += ldh) {
            v16 y[V];
            for (int v = 0; v < V; v++) y[v] = load16(h + 16 * v);
            const float *at = a;
            for (int i = 0; i < R; i++, at += s.step) {
                v16 x = splat(*at);
                for (int v = 0; v < V; v++) acc[i][v] += x * y[v];
            }
        }
    }
    for (int i = 0; i < R; i++)
        for (int v = 0; v < V; v++) store_up_to(sum + i * lds + 16 * v, acc[i][v], width - 16 * v);
}

// The same for elements [first, first + count) and any width; sum's rows are those of the elements.
static void add_outer(const std::vector<Stretch> &stretches, int64_t first, int64_t count, const float *h, int64_t ldh,
                      int64_t width, float *sum, int64_t lds) {
    auto tiles = [&](auto vectors, int64_t j) {
        constexpr int V = decltype(vectors)::value, TALL = outer_height(V);
        for (int64_t i = 0; i < count; i += TALL)
            by_size<TALL>(std::min<int64_t>(TALL, count - i), [&](auto size) {
                outer_tile<decltype(size)::value, V>(stretches, first + i, h + j, ldh, sum + i * lds + j, lds, width - j);
            });
    };
    for (int64_t j = 0; j < width; j += 48) {
        int64_t vectors = ceil_div(std::min<int64_t>(48, width - j), 16);
        by_size<3>(vectors, [&](auto size) { tiles(size, j); });
    }
}
