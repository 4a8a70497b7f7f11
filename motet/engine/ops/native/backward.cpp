// The way back through y = x W' + adapters: dx, and every adapter's dA and dB added to in the order of the rows.
//
// An element of a gradient is one chain over the rows, begun from what the buffer holds, so where a run's rows are
// cut into passes changes nothing. Threads share out elements, never rows.
#include "product.h"

static thread_local Scratch x_scratch, dy_scratch, h_scratch, dh_scratch, turned_scratch, kept_scratch, a_scratch,
    b_scratch, rows_scratch, spare_scratch;

constexpr int64_t SLICE = 1024;  // columns of dy taken at once: their panels and rows stay in cache
constexpr int64_t CHUNK = 96;    // elements of a gradient's longer side in one task

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

template <typename T> struct Way {  // one call's arguments and scratch
    Kind kind;
    int64_t N, D, O, parts;
    const int64_t *splits;
    const T *x;
    const T *panels;
    T *dx;
    Adapters ad;
    Blocks blocks;
    int64_t rank = 0, x_stride = 0;
    float *packed = nullptr, *h = nullptr, *dh = nullptr;
    std::vector<float *> a_turned, b_turned;  // A' (P R, D) and B' (O, R) of each segment

    int64_t ldh() const { return parts * rank; }
    const T *a(int64_t s) const { return (const T *)ad.table[s][0]; }
    const T *b(int64_t s) const { return (const T *)ad.table[s][1]; }

    void make_room() {
        for (int64_t s = 0; s < ad.count; s++) rank = std::max(rank, ad.ranks[s]);
        x_stride = D * MAX_ROWS + 16;
        packed = x_scratch.get<float>(blocks.count() * x_stride);
        h = h_scratch.get<float>(N * ldh() + 64);
        dh = dh_scratch.get<float>(N * ldh() + 64);
        float *at = a_scratch.get<float>(ad.count * ldh() * D), *bt = b_scratch.get<float>(ad.count * rank * O);
        for (int64_t s = 0; s < ad.count; s++) {
            a_turned.push_back(at + s * ldh() * D);
            b_turned.push_back(bt + s * rank * O);
        }
    }

    // Everything that the adapters' gradients and their share of dx are made of; called by a team.
    template <typename TD> void prepare(const TD *dy) const {
#pragma omp for schedule(dynamic) nowait
        for (int64_t i = 0; i < blocks.count(); i++)
            pack_floats(x + blocks.starts[i] * D, D, blocks.rows(i), D, D, packed + i * x_stride);
#pragma omp for schedule(dynamic)
        for (int64_t s = 0; s < ad.count; s++) {
            if (!ad.table[s][0]) continue;
            int64_t width = parts * ad.ranks[s];
            for (int64_t k = 0; k < D; k++)
                for (int64_t j = 0; j < width; j++) a_turned[s][j * D + k] = load1(a(s) + k * width + j);
            for (int64_t r = 0; r < ad.ranks[s]; r++)
                for (int64_t c = 0; c < O; c++) b_turned[s][c * ad.ranks[s] + r] = load1(b(s) + r * O + c);
        }
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < blocks.pieces.size(); i++) shrink_piece(blocks.pieces[i], dy);
    }

    template <typename TD> void shrink_piece(const Piece &p, const TD *dy) const {
        int64_t s = p.segment, r = ad.ranks[s], rows = blocks.rows(p.block);
        const float *at = packed + p.block * x_stride + p.row - blocks.starts[p.block];
        shrink(p.rows, at, 1, rows, a(s), D, parts * r, ad.scales[s], h + p.row * ldh(), ldh());
        const float *d = floats(dy + p.row * O, p.rows * O);
        for (int64_t part = 0, c = 0; part < parts; c += splits[part], part++)
            shrink(p.rows, d + c, O, 1, (const float *)b_turned[s] + c * r, splits[part], r, ad.scales[s],
                   dh + p.row * ldh() + part * r, ldh());
    }

    static const float *floats(const float *from, int64_t) { return from; }
    static const float *floats(const bf16 *from, int64_t count) {
        float *to = rows_scratch.get<float>(count);
        int64_t i = 0;
        for (; i + 16 <= count; i += 16) store16(to + i, load16(from + i));
        for (; i < count; i++) to[i] = load1(from + i);
        return to;
    }

    // dx, a slice of dy's columns at a time; called by a team.
    template <typename TD> void inward(const TD *dy, float *slice, T *turned, float *kept, Share<float> *share) const {
        constexpr int64_t PAIR = sizeof(T) == 2 ? 2 : 1;
        int64_t d_panels = ceil_div(D, WIDE), o_padded = ceil_div(O, WIDE) * WIDE, d_padded = ceil_div(D, PAIR) * PAIR;
        int64_t stride = SLICE * MAX_ROWS + 16;
        for (int64_t from = 0; from < o_padded; from += SLICE) {
            int64_t K = std::min(SLICE, o_padded - from);
#pragma omp for schedule(dynamic) nowait
            for (int64_t i = 0; i < blocks.count(); i++)
                pack_rows(kind, dy + blocks.starts[i] * O + from, O, blocks.rows(i), O - from, K, slice + i * stride);
#pragma omp for schedule(dynamic)
            for (int64_t q = 0; q < d_panels; q++)
                for (int64_t o = 0; o < K; o += WIDE)
                    turn_tile(panels + (from + o) * d_padded + q * WIDE * WIDE, d_padded - q * WIDE,
                              turned + q * K * WIDE + o * WIDE);
            Product<float, T> product{kind, blocks, D, K, (const char *)turned, slice, stride, kept, from == 0,
                                      from + K == o_padded, share, dx, D};
            product.run_all(spare_scratch.get<float>(ldh() * WIDE));
        }
    }

    // grad A[d][j] += sum over rows of x[n][d] * dh[n][j], for R rows d and V vectors of j.
    template <int R, int V> void add_a(int64_t s, int64_t d, int64_t j, int width, float *grad, int64_t ld) const {
        v16 acc[R][V];
        for (int i = 0; i < R; i++)
            for (int v = 0; v < V; v++) acc[i][v] = load_up_to(grad + (d + i) * ld + j + 16 * v, width - 16 * v);
        for (const Piece &p : blocks.pieces) {
            if (p.segment != s) continue;
            int64_t rows = blocks.rows(p.block);
            const float *at = packed + p.block * x_stride + d * rows + p.row - blocks.starts[p.block];
            const float *by = dh + p.row * ldh() + j;
            for (int64_t n = 0; n < p.rows; n++, by += ldh()) {
                v16 b[V];
                for (int v = 0; v < V; v++) b[v] = load16(by + 16 * v);
                for (int i = 0; i < R; i++) {
                    v16 a = splat(at[i * rows + n]);
                    for (int v = 0; v < V; v++) acc[i][v] += a * b[v];
                }
            }
        }
        for (int i = 0; i < R; i++)
            for (int v = 0; v < V; v++) store_up_to(grad + (d + i) * ld + j + 16 * v, acc[i][v], width - 16 * v);
    }

    // grad B[r][c] += sum over rows of h[n][r] * dy[n][c], for R rows r and V vectors of c.
    template <int R, int V, typename TD>
    void add_b(int64_t s, const TD *dy, const float *by, int64_t c, int width, float *grad) const {
        v16 acc[R][V];
        for (int i = 0; i < R; i++)
            for (int v = 0; v < V; v++) acc[i][v] = load_up_to(grad + i * O + c + 16 * v, width - 16 * v);
        for (int64_t n = ad.bounds[s]; n < ad.bounds[s + 1]; n++) {
            const TD *row = dy + n * O + c;
            __builtin_prefetch(row + 12 * O);
            v16 b[V];
            for (int v = 0; v < V; v++) b[v] = load_up_to(row + 16 * v, width - 16 * v);
            for (int i = 0; i < R; i++) {
                v16 a = splat(by[n * ldh() + i]);
                for (int v = 0; v < V; v++) acc[i][v] += a * b[v];
            }
        }
        for (int i = 0; i < R; i++)
            for (int v = 0; v < V; v++) store_up_to(grad + i * O + c + 16 * v, acc[i][v], width - 16 * v);
    }

    template <typename E> static v16 load_up_to(const E *p, int n) { return n >= 16 ? load16(p) : load_some(p, n); }
    static void store_up_to(float *p, v16 x, int n) {
        if (n >= 16) store16(p, x);
        else store_some(p, x, n);
    }

    void chunk_of_a(int64_t s, int64_t from) const {
        int64_t width = parts * ad.ranks[s], stop = std::min(from + CHUNK, D);
        float *grad = (float *)ad.table[s][2];
        for (int64_t d = from; d < stop; d += FEW_ROWS)
            for (int64_t j = 0; j < width; j += 48) {
                int rows = std::min<int64_t>(FEW_ROWS, stop - d), left = std::min<int64_t>(48, width - j);
                by_rows<FEW_ROWS>(rows, [&](auto R) {
                    constexpr int H = decltype(R)::value;
                    if (left > 32) add_a<H, 3>(s, d, j, left, grad, width);
                    else if (left > 16) add_a<H, 2>(s, d, j, left, grad, width);
                    else add_a<H, 1>(s, d, j, left, grad, width);
                });
            }
    }

    template <typename TD> void chunk_of_b(int64_t s, int64_t from, const TD *dy) const {
        float *grad = (float *)ad.table[s][3];
        for (int64_t part = 0, start = 0; part < parts; start += splits[part], part++) {
            int64_t stop = std::min(from + CHUNK, start + splits[part]);
            for (int64_t c = std::max(from, start); c < stop; c += WIDE)
                for (int64_t r = 0; r < ad.ranks[s]; r += FEW_ROWS) {
                    int rows = std::min<int64_t>(FEW_ROWS, ad.ranks[s] - r), left = std::min<int64_t>(WIDE, stop - c);
                    const float *by = h + part * ad.ranks[s] + r;
                    by_rows<FEW_ROWS>(rows, [&](auto R) {
                        constexpr int H = decltype(R)::value;
                        if (left > 16) add_b<H, 2>(s, dy, by, c, left, grad + r * O);
                        else add_b<H, 1>(s, dy, by, c, left, grad + r * O);
                    });
                }
        }
    }

    template <int R, typename F> static void by_rows(int rows, F f) {
        if constexpr (R > 0) {
            if (rows == R) f(std::integral_constant<int, R>());
            else by_rows<R - 1>(rows, f);
        }
    }

    // dA and dB of every adapter that keeps gradients; called by a team.
    template <typename TD> void add_gradients(const TD *dy) const {
        int64_t of_a = ceil_div(D, CHUNK), each = of_a + ceil_div(O, CHUNK);
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < ad.count * each; task++) {
            int64_t s = task / each, chunk = task % each;
            if (!ad.table[s][2] || ad.bounds[s] == ad.bounds[s + 1]) continue;
            if (chunk < of_a) chunk_of_a(s, chunk * CHUNK);
            else chunk_of_b(s, (chunk - of_a) * CHUNK, dy);
        }
    }

    template <typename TD> void run(const TD *dy) {
        bool mixed = !blocks.pieces.empty();
        if (mixed) make_room();
        int64_t wide = std::min(SLICE, ceil_div(O, WIDE) * WIDE), d_panels = ceil_div(D, WIDE);
        float *slice = dy_scratch.get<float>(blocks.count() * (SLICE * MAX_ROWS + 16));
        T *turned = turned_scratch.get<T>(d_panels * WIDE * wide);
        float *kept = O > SLICE ? kept_scratch.get<float>(N * d_panels * WIDE) : nullptr;
        Share<float> share{dh, ldh(), {a_turned.begin(), a_turned.end()}, {}, 1, &D};
        for (int64_t s = 0; s < ad.count; s++) share.ranks.push_back(parts * ad.ranks[s]);
#pragma omp parallel num_threads(threads_for((double)N * D * O))
        {
            if (mixed) prepare(dy);
            if (dx) inward(dy, slice, turned, kept, mixed ? &share : nullptr);
            if (mixed) add_gradients(dy);
        }
    }
};

// x (N, D), dy (N, O), dx (N, D) or null; all rows contiguous. dy is float32 or of x's type.
extern "C" void motet_linear_backward(int kind, int dy_is_float, int64_t N, int64_t D, int64_t O, int64_t parts,
                                      const int64_t *splits, const void *x, const void *dy, const void *panels,
                                      void *dx, int64_t adapters, const int64_t *bounds, const void *table,
                                      const int64_t *ranks, const float *scales) {
    Adapters ad{adapters, bounds, (const int64_t(*)[4])table, ranks, scales};
    if (kind == FP32) {
        Way<float> way{FP32, N, D, O, parts, splits, (const float *)x, (const float *)panels, (float *)dx, ad, {N, ad}};
        way.run((const float *)dy);
        return;
    }
    Way<bf16> way{(Kind)kind, N, D, O, parts, splits, (const bf16 *)x, (const bf16 *)panels, (bf16 *)dx, ad, {N, ad}};
    if (dy_is_float) way.run((const float *)dy);
    else way.run((const bf16 *)dy);
}
