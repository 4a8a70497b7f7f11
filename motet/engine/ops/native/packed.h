// The keys of a training sequence, gathered from the rows of a pack into blocks, in float32.
#pragma once

#include "attend.h"

struct Packed {  // see PackedSequences in attention.py
    int64_t groups;
    const int32_t *group_bounds, *key_bounds, *key_rows, *query_counts;
    int64_t keys(int64_t s) const { return key_bounds[s + 1] - key_bounds[s]; }
    const int32_t *rows(int64_t s) const { return key_rows + key_bounds[s]; }
};

template <typename T> struct Tensors {  // (N, H or K, E) each, rows apart by a stride of their own
    const T *q, *k, *v;
    int64_t qs, ks, vs, H, K, E;
    float scale;
    int64_t G() const { return H / K; }
};

class Gathered {
  public:
    Keys<float> forward, crossed;  // keys by block and values by row; the other way round for the backward

    // The next sequence of one key head: blocks that it shares with the last one stay as they are.
    template <typename T> void take(const Tensors<T> &t, const Packed &p, int64_t s, int64_t head, bool both) {
        int64_t keys = p.keys(s), from = 0, E = t.E, old = std::min<int64_t>(keys, last_.size());
        const int32_t *rows = p.rows(s);
        while (from < old && last_[from] == rows[from]) from++;
        from -= from % BLOCK;
        last_.assign(rows, rows + keys);
        reserve(ceil_div(keys, BLOCK), E, both);
        for (int64_t b = from; b < keys; b += BLOCK) {
            int64_t count = std::min(BLOCK, keys - b), place = b * E;
            put(t.k + head * E, t.ks, rows + b, count, E, k_rows_.data() + place, k_blocks_.data() + place);
            put(t.v + head * E, t.vs, rows + b, count, E, v_rows_.data() + place, both ? v_blocks_.data() + place : nullptr);
        }
    }
    void forget() { last_.clear(); }

  private:
    std::vector<int32_t> last_;
    std::vector<float> k_rows_, v_rows_, k_blocks_, v_blocks_;

    void reserve(int64_t blocks, int64_t E, bool both) {
        size_t room = blocks * BLOCK * E + 64;
        for (auto *part : {&k_rows_, &v_rows_, &k_blocks_, &v_blocks_})
            if (part->size() < room && (both || part != &v_blocks_)) part->resize(room + room / 2);
        for (auto *part : {&forward.k, &forward.v, &crossed.k, &crossed.v}) part->resize(blocks);
        for (int64_t b = 0; b < blocks; b++) {
            forward.k[b] = k_blocks_.data() + b * BLOCK * E, forward.v[b] = v_rows_.data() + b * BLOCK * E;
            crossed.k[b] = v_blocks_.data() + b * BLOCK * E, crossed.v[b] = k_rows_.data() + b * BLOCK * E;
        }
    }

    // Rows of 16 positions, and the same with the width first.
    template <typename T>
    static void put(const T *x, int64_t stride, const int32_t *rows, int64_t count, int64_t E, float *row, float *block) {
        for (int64_t i = 0; i < BLOCK; i++) {
            if (i < count) widen_row(x + rows[i] * stride, row + i * E, E);
            else memset(row + i * E, 0, sizeof(float) * E);
        }
        for (int64_t e = 0; block && e < E; e += 16) {
            int64_t width = std::min<int64_t>(16, E - e);
            u16v tile[16];
            for (int64_t i = 0; i < BLOCK; i++)
                tile[i] = (u16v)(width == 16 ? load16(row + i * E + e) : load_some(row + i * E + e, width));
            transpose16(tile);
            for (int64_t i = 0; i < width; i++) store16(block + (e + i) * BLOCK, (v16)tile[i]);
        }
    }
};
