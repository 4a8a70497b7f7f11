// The way back through y = x W' + adapters: dx, and every adapter's dA and dB added to in the order of the rows.
//
// An element of a gradient is one chain over the rows, begun from what the buffer holds, so where a run's rows are
// cut into passes changes nothing. Threads share out elements, never rows.
#include "product.h"
#include "turn.h"

static thread_local Scratch x_scratch, dy_scratch, floats_scratch, h_scratch, dh_scratch, share_scratch, turned_scratch,
    kept_scratch, a_scratch, b_scratch, chunk_scratch, piece_scratch, spare_scratch;

constexpr int64_t SLICE = 1024;  // columns of dy taken at once: their panels and rows stay in cache
constexpr int64_t CHUNK = 96;    // elements of a gradient's longer side in one task

template <typename T, typename TD> class Way {  // one call: x, panels, dx of T; dy of TD
  public:
    Way(Kind kind, int64_t N, int64_t D, int64_t O, int64_t parts, const int64_t *splits, const void *x, const void *dy,
        const void *panels, void *dx, const Adapters &ad)
        : kind_(kind), N_(N), D_(D), O_(O), parts_(parts), splits_(splits), x_((const T *)x), dy_((const TD *)dy),
          panels_((const T *)panels), dx_((T *)dx), ad_(ad), blocks_(N, ad), mixed_(!blocks_.pieces.empty()) {}

    void run() {
        if (!mixed_ && !dx_) return;
        if (mixed_) make_room();
        int64_t d_panels = ceil_div(D_, WIDE);
        slice_ = dy_scratch.get<float>(blocks_.count() * stride());
        floats_ = mixed_ && kind_ == BF16_DOT ? floats_scratch.get<float>(blocks_.count() * stride()) : slice_;
        turned_ = turned_scratch.get<T>(d_panels * WIDE * std::min(SLICE, o_padded()));
        kept_ = O_ > SLICE ? kept_scratch.get<float>(N_ * d_panels * WIDE) : nullptr;
#pragma omp parallel num_threads(threads_for((double)N_ * D_ * O_))
        {
            if (mixed_) prepare();
            for (int64_t from = 0; from < o_padded(); from += SLICE) take_slice(from);
            if (mixed_) grow_a();
        }
    }

  private:
    Kind kind_;
    int64_t N_, D_, O_, parts_;
    const int64_t *splits_;
    const T *x_;
    const TD *dy_;
    const T *panels_;
    T *dx_;
    Adapters ad_;
    Blocks blocks_;
    bool mixed_;
    int64_t ldh_ = 0, x_stride_ = 0;
    float *packed_, *slice_, *floats_, *kept_;
    float *h_, *dh_;  // (N, ldh): scale x A and scale dy B', by row
    T *turned_;       // a slice of the weights, turned
    Share<float> share_;
    std::vector<float *> b_turned_;  // B' (O, R) of each segment

    int64_t stride() const { return SLICE * MAX_ROWS + 16; }
    int64_t o_padded() const { return ceil_div(O_, WIDE) * WIDE; }
    bool grows(int64_t s) const { return !absent(s) && ad_.table[s][2]; }
    bool absent(int64_t s) const { return !ad_.table[s][0] || ad_.bounds[s] == ad_.bounds[s + 1]; }

    void make_room() {
        int64_t rank = 0;
        for (int64_t s = 0; s < ad_.count; s++) rank = std::max(rank, ad_.ranks[s]);
        ldh_ = parts_ * rank;
        x_stride_ = D_ * MAX_ROWS + 16;
        packed_ = x_scratch.get<float>(blocks_.count() * x_stride_);
        h_ = h_scratch.get<float>(N_ * ldh_ + 64);
        dh_ = dh_scratch.get<float>(N_ * ldh_ + 64);
        share_ = {share_scratch.get<float>(N_ * ldh_), ldh_, {}, {}, 1, &D_};
        float *a = a_scratch.get<float>(ad_.count * ldh_ * D_), *b = b_scratch.get<float>(ad_.count * rank * O_);
        for (int64_t s = 0; s < ad_.count; s++) {
            share_.b.push_back(a + s * ldh_ * D_);
            share_.ranks.push_back(parts_ * ad_.ranks[s]);
            b_turned_.push_back(b + s * rank * O_);
        }
    }

    // What does not wait for dy's slices: x packed, A' and B', h.
    void prepare() {
#pragma omp for schedule(dynamic) nowait
        for (int64_t i = 0; i < blocks_.count(); i++)
            pack_floats(x_ + blocks_.starts[i] * D_, D_, blocks_.rows(i), D_, D_, packed_ + i * x_stride_);
#pragma omp for schedule(dynamic)
        for (int64_t s = 0; s < 2 * ad_.count; s++) {
            int64_t i = s / 2, r = ad_.ranks[i];
            if (absent(i)) continue;
            if (s % 2) turn((const T *)ad_.table[i][0], D_, parts_ * r, parts_ * r, (float *)share_.b[i], D_);
            else turn((const T *)ad_.table[i][1], r, O_, O_, b_turned_[i], r);
        }
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < blocks_.pieces.size(); i++) {
            const Piece &p = blocks_.pieces[i];
            int64_t width = parts_ * ad_.ranks[p.segment], rows = blocks_.rows(p.block);
            const float *at = packed_ + p.block * x_stride_ + p.row - blocks_.starts[p.block];
            shrink(p.rows, at, rows, (const T *)ad_.table[p.segment][0], D_, width, false, h_ + p.row * ldh_, ldh_);
            float *unused = piece_scratch.get<float>(MAX_ROWS * ldh_);
            scale_and_turn(p.rows, width, ad_.scales[p.segment], h_ + p.row * ldh_, ldh_, unused);
        }
    }

    // Columns [from, from + SLICE) of dy: on with dh, their dB, on with dx.
    void take_slice(int64_t from) {
        int64_t K = std::min(SLICE, o_padded() - from), valid = std::min(K, O_ - from);
#pragma omp for schedule(dynamic) nowait
        for (int64_t i = 0; i < blocks_.count(); i++) {
            const TD *dy = dy_ + blocks_.starts[i] * O_ + from;
            pack_rows(kind_, dy, O_, blocks_.rows(i), valid, K, slice_ + i * stride());
            if (floats_ != slice_) pack_floats(dy, O_, blocks_.rows(i), valid, K, floats_ + i * stride());
            for (int64_t p = blocks_.first_piece.at(i); mixed_ && p < blocks_.first_piece[i + 1]; p++)
                shrink_slice(blocks_.pieces[p], from, from + K);
        }
#pragma omp for schedule(dynamic)
        for (int64_t q = 0; q < (dx_ ? ceil_div(D_, WIDE) : 0); q++) turn_panel(q, from, K);
        if (mixed_) grow_b(from, from + valid);
        if (!dx_) return;
        bool last = from + K == o_padded();
        Product<float, T> product{kind_, blocks_, D_, K, (const char *)turned_, slice_, stride(), kept_, from == 0, last,
                                  mixed_ ? &share_ : nullptr, dx_, D_};
        product.run_all(spare_scratch.get<float>(ldh_ * WIDE));
    }

    void turn_panel(int64_t q, int64_t from, int64_t K) const {
        int64_t padded = sizeof(T) == 2 ? (D_ + 1) / 2 * 2 : D_;
        for (int64_t o = 0; o < K; o += WIDE)
            turn_tile(panels_ + (from + o) * padded + q * WIDE * WIDE, padded - q * WIDE, turned_ + (q * K + o) * WIDE);
    }

    // dh of a piece, over the columns [from, stop): each part's chain goes on where the last slice left it.
    void shrink_slice(const Piece &p, int64_t from, int64_t stop) {
        int64_t s = p.segment, r = ad_.ranks[s], rows = blocks_.rows(p.block), start = 0;
        const float *at = floats_ + p.block * stride() + p.row - blocks_.starts[p.block];
        float *dh = dh_ + p.row * ldh_;
        for (int64_t part = 0; part < parts_; start += splits_[part], part++) {
            int64_t c0 = std::max(from, start), c1 = std::min(stop, start + splits_[part]);
            if (c0 >= c1) continue;
            shrink(p.rows, at + (c0 - from) * rows, rows, (const float *)b_turned_[s] + c0 * r, c1 - c0, r, c0 > start,
                   dh + part * r, ldh_);
        }
        if (stop >= O_) scale_and_turn(p.rows, parts_ * r, ad_.scales[s], dh, ldh_, (float *)share_.h + p.row * ldh_);
    }

    // The rows of an adapter in packed blocks that lie `stride` apart.
    std::vector<Stretch> stretches(int64_t s, const float *packed, int64_t stride) const {
        std::vector<Stretch> all;
        for (const Piece &p : blocks_.pieces)
            if (p.segment == s)
                all.push_back({packed + p.block * stride + p.row - blocks_.starts[p.block], blocks_.rows(p.block), p.rows});
        return all;
    }

    // dA of every adapter that keeps gradients.
    void grow_a() {
        int64_t chunks = ceil_div(D_, CHUNK);
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < ad_.count * chunks; task++) {
            int64_t s = task / chunks, d = task % chunks * CHUNK, width = parts_ * ad_.ranks[s];
            if (grows(s))
                add_outer(stretches(s, packed_, x_stride_), d, std::min(CHUNK, D_ - d), dh_ + ad_.bounds[s] * ldh_, ldh_,
                          width, (float *)ad_.table[s][2] + d * width, width);
        }
    }

    // The columns [from, stop) of their dB.
    void grow_b(int64_t from, int64_t stop) {
        int64_t chunks = ceil_div(stop - from, CHUNK);
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < ad_.count * chunks; task++) {
            int64_t s = task / chunks, c0 = from + task % chunks * CHUNK, c1 = std::min(c0 + CHUNK, stop), start = 0;
            if (!grows(s)) continue;
            std::vector<Stretch> dy = stretches(s, floats_, stride());
            for (int64_t part = 0; part < parts_; start += splits_[part], part++) {
                int64_t c = std::max(c0, start), count = std::min(c1, start + splits_[part]) - c;
                if (count > 0) columns_of_b(s, part, dy, c - from, count, (float *)ad_.table[s][3] + c);
            }
        }
    }

    // `count` columns of dB, turned while they grow: the ranks are neighbours then, as they are in h.
    void columns_of_b(int64_t s, int64_t part, const std::vector<Stretch> &dy, int64_t first, int64_t count, float *grad) {
        int64_t r = ad_.ranks[s], wide = ceil_div(r, 16) * 16;
        float *turned = chunk_scratch.get<float>(CHUNK * wide);
        turn(grad, r, count, O_, turned, wide);
        add_outer(dy, first, count, h_ + ad_.bounds[s] * ldh_ + part * r, ldh_, r, turned, wide);
        turn(turned, count, r, wide, grad, O_);
    }
};

// x (N, D), dy (N, O), dx (N, D) or null; all rows contiguous. dy is float32 or of x's type.
extern "C" void motet_linear_backward(int kind, int dy_is_float, int64_t N, int64_t D, int64_t O, int64_t parts,
                                      const int64_t *splits, const void *x, const void *dy, const void *panels,
                                      void *dx, int64_t adapters, const int64_t *bounds, const void *table,
                                      const int64_t *ranks, const float *scales) {
    Adapters ad{adapters, bounds, (const int64_t(*)[4])table, ranks, scales};
    auto run = [&](auto way) { way.run(); };
    if (kind == FP32) run(Way<float, float>((Kind)kind, N, D, O, parts, splits, x, dy, panels, dx, ad));
    else if (dy_is_float) run(Way<bf16, float>((Kind)kind, N, D, O, parts, splits, x, dy, panels, dx, ad));
    else run(Way<bf16, bf16>((Kind)kind, N, D, O, parts, splits, x, dy, panels, dx, ad));
}
