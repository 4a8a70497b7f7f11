// Packed rows times packed panels, with the adapters' share added before the one rounding. Used by the forward
// (panels of the weights as they lie) and by the backward (panels of their transpose, a slice of k at a time).
#pragma once

#include <algorithm>
#include <vector>

#include "lora.h"
#include "tiles.h"

struct Piece {  // rows of a block that belong to one adapter
    int64_t block, row, rows, segment;
};

// How a batch is cut for the register tiles. No result depends on it.
struct Blocks {
    std::vector<int64_t> starts{0};  // of the blocks, and the end
    std::vector<Piece> pieces;
    std::vector<int64_t> first_piece;  // of each block, and the end
    int64_t count() const { return (int64_t)starts.size() - 1; }
    int64_t rows(int64_t b) const { return starts[b + 1] - starts[b]; }

    Blocks(int64_t N, const Adapters &ad) {
        int64_t together = ceil_div(N, MAX_ROWS), apart = 0;
        for (int64_t s = 0; s < ad.count; s++) apart += ceil_div(ad.bounds[s + 1] - ad.bounds[s], MAX_ROWS);
        if (ad.count && apart * 20 <= together * 21)  // blocks that end where adapters do, if they are hardly more
            for (int64_t s = 0; s < ad.count; s++) cut(ad.bounds[s], ad.bounds[s + 1]);
        else cut(0, N);
        for (int64_t b = 0, s = 0; b < count(); b++) {
            first_piece.push_back(pieces.size());
            for (; s < ad.count && ad.bounds[s] < starts[b + 1]; s++) {
                int64_t from = std::max(ad.bounds[s], starts[b]), stop = std::min(ad.bounds[s + 1], starts[b + 1]);
                if (ad.table[s][0] && stop > from) pieces.push_back({b, from, stop - from, s});
                if (ad.bounds[s + 1] > starts[b + 1]) break;
            }
        }
        first_piece.push_back(pieces.size());
    }

  private:
    void cut(int64_t from, int64_t stop) {  // into blocks of nearly equal height
        int64_t parts = ceil_div(stop - from, MAX_ROWS);
        for (int64_t i = 1; i <= parts; i++) starts.push_back(from + (stop - from) * i / parts);
    }
};

// A block's rows, K wide, as [k][R], zeros up to `padded`; 16 words past the end are overwritten.
template <int R, typename T> static void pack_floats(const T *x, int64_t ldx, int64_t K, int64_t padded, float *out) {
    int64_t k = 0;
    u16v tile[16] = {};
    for (; k + 16 <= K; k += 16) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) tile[i] = i < R ? (u16v)load16(x + i * ldx + k) : (u16v){};
        transpose16(tile);
#pragma GCC unroll 16
        for (int j = 0; j < 16; j++) store16(out + (k + j) * R, (v16)tile[j]);
    }
    for (; k < padded; k++)
        for (int i = 0; i < R; i++) out[k * R + i] = k < K ? load1(x + i * ldx + k) : 0;
}

static inline u16v pair16(const bf16 *p) { return *(const u16vu *)p; }
static inline u16v pair16(const float *p) {
    bf16 pairs[32];
    store16(pairs, load16(p)), store16(pairs + 16, load16(p + 16));
    return pair16(pairs);
}

// The same as pairs of bfloat16, [k/2][R][2].
template <int R, typename T> static void pack_pairs(const T *x, int64_t ldx, int64_t K, int64_t padded, float *out) {
    int64_t k = 0;
    u16v tile[16] = {};
    for (; k + 32 <= K; k += 32) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) tile[i] = i < R ? pair16(x + i * ldx + k) : (u16v){};
        transpose16(tile);
#pragma GCC unroll 16
        for (int j = 0; j < 16; j++) store16(out + (k / 2 + j) * R, (v16)tile[j]);
    }
    bf16 *to = (bf16 *)out;
    for (; k < padded; k++)
        for (int i = 0; i < R; i++) store1(to + (k / 2 * R + i) * 2 + k % 2, k < K ? load1(x + i * ldx + k) : 0);
}

template <typename T>
static void pack_floats(const T *x, int64_t ldx, int rows, int64_t K, int64_t padded, float *out) {
    by_size<MAX_ROWS>(rows, [&](auto size) { pack_floats<decltype(size)::value>(x, ldx, K, padded, out); });
}

template <typename T>
static void pack_pairs(const T *x, int64_t ldx, int rows, int64_t K, int64_t padded, float *out) {
    by_size<MAX_ROWS>(rows, [&](auto size) { pack_pairs<decltype(size)::value>(x, ldx, K, padded, out); });
}

template <typename T>
static void pack_rows(Kind kind, const T *x, int64_t ldx, int rows, int64_t K, int64_t padded, float *out) {
    if (kind == BF16_DOT) pack_pairs(x, ldx, rows, K, padded, out);
    else pack_floats(x, ldx, rows, K, padded, out);
}

// What the adapters add to a product: each piece's h, as [ldh][rows] from h + row * ldh on, times its adapter's b.
template <typename TB> struct Share {
    const float *h;
    int64_t ldh;
    std::vector<const TB *> b;    // by segment
    std::vector<int64_t> ranks;   // rows of b for each part
    int64_t parts;
    const int64_t *splits;        // columns of each part
};

template <typename TB, typename TY> struct Product {
    Kind kind;
    const Blocks &blocks;
    int64_t columns;   // of the result
    int64_t K;         // of this slice, padded to the panel's step
    const char *panels;
    const float *x;    // packed rows; block b begins at x + b * x_stride
    int64_t x_stride;
    float *kept;       // sums between slices of k, or null when there is one slice only
    bool first, last;  // slice
    Share<TB> *share;  // or null
    TY *y;
    int64_t ldy;

    int64_t panel_bytes() const { return K * WIDE * (kind == FP32 ? 4 : 2); }
    int64_t panel_count() const { return ceil_div(columns, WIDE); }

    void finish(int64_t block, int64_t panel, float *c, float *spare) const {
        int64_t column = panel * WIDE, start = blocks.starts[block];
        if (share)
            for (int64_t i = blocks.first_piece[block]; i < blocks.first_piece[block + 1]; i++) {
                const Piece &piece = blocks.pieces[i];
                int64_t s = piece.segment;
                expand(piece.rows, share->h + piece.row * share->ldh, share->b[s], columns, share->ranks[s],
                       share->parts, share->splits, column, c + (piece.row - start) * WIDE, spare);
            }
        for (int64_t i = 0; i < blocks.rows(block); i++) {
            TY *to = y + (start + i) * ldy + column;
            const float *from = c + i * WIDE;
            if (columns - column >= WIDE) store16(to, load16(from)), store16(to + 16, load16(from + 16));
            else
                for (int64_t j = 0; j < columns - column; j++) store1(to + j, from[j]);
        }
    }

    // Blocks [b0, b1) times panels [p0, p1).
    void run(int64_t b0, int64_t b1, int64_t p0, int64_t p1, float *spare) const {
        float tile[2 * MAX_ROWS * WIDE];
        int64_t steps = kind == FP32 ? K : K / 2;
        for (int64_t b = b0; b < b1; b++) {
            int rows = blocks.rows(b), most = panels_at_once(rows);
            for (int64_t p = p0, n; p < p1; p += n) {
                n = p + most <= p1 ? most : 1;
                float *c = kept ? kept + (blocks.starts[b] * panel_count() + p * rows) * WIDE : tile;
                panel_tile_for(kind, rows, n)(x + b * x_stride, panels + p * panel_bytes(), panel_bytes(), steps,
                                              !first, c);
                if (last)
                    for (int64_t j = 0; j < n; j++) finish(b, p + j, c + j * rows * WIDE, spare);
            }
        }
    }

    // All of it, shared out among the threads of the team that calls.
    void run_all(float *spare) const {
        int64_t rows_at_once = std::max<int64_t>(1, 786432 / (K * 4) / MAX_ROWS);  // blocks that stay in cache
        int64_t groups = ceil_div(blocks.count(), rows_at_once), panels_each = 4;
        if (groups == 1) panels_each = std::max<int64_t>(4, ceil_div(panel_count(), 4 * omp_get_num_threads()) & ~3);
        int64_t columns_of_tasks = ceil_div(panel_count(), panels_each);
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < groups * columns_of_tasks; task++) {
            int64_t b0 = task / columns_of_tasks * rows_at_once, p0 = task % columns_of_tasks * panels_each;
            run(b0, std::min(b0 + rows_at_once, blocks.count()), p0, std::min(p0 + panels_each, panel_count()), spare);
        }
    }
};
