// y = x W' plus every row's adapter.
#include "product.h"

static thread_local Scratch x_scratch, x32_scratch, turned_scratch, h_scratch, spare_scratch;

struct Shape {  // of one product of the base model
    int64_t N, D, O, parts;
    const int64_t *splits;
};

// Every piece's h = scale * x A, turned; called by a team.
template <typename T>
static void shrink_pieces(const Blocks &blocks, const Adapters &ad, const Shape &s, const float *x, int64_t x_stride,
                          float *turned, int64_t ldh) {
#pragma omp for schedule(dynamic)
    for (size_t i = 0; i < blocks.pieces.size(); i++) {
        const Piece &p = blocks.pieces[i];
        int64_t width = s.parts * ad.ranks[p.segment];
        const float *at = x + p.block * x_stride + p.row - blocks.starts[p.block];
        float *h = h_scratch.get<float>(MAX_ROWS * width);
        shrink(p.rows, at, blocks.rows(p.block), (const T *)ad.table[p.segment][0], s.D, width, false, h, width);
        scale_and_turn(p.rows, width, ad.scales[p.segment], h, width, turned + p.row * ldh);
    }
}

static int64_t widest(const Adapters &ad) {
    int64_t rank = 0;
    for (int64_t i = 0; i < ad.count; i++) rank = std::max(rank, ad.ranks[i]);
    return rank;
}

template <typename T, typename TY>
static void forward(Kind kind, const Shape &s, const T *x, int64_t ldx, const char *panels, TY *y, const Adapters &ad) {
    Blocks blocks(s.N, ad);
    bool mixed = !blocks.pieces.empty(), apart = mixed && kind == BF16_DOT;
    int64_t padded = sizeof(T) == 2 ? (s.D + 1) / 2 * 2 : s.D, stride = padded * MAX_ROWS + 16, rank = widest(ad);
    float *packed = x_scratch.get<float>(blocks.count() * stride);
    float *floats = apart ? x32_scratch.get<float>(blocks.count() * stride) : packed;
    float *turned = turned_scratch.get<float>(s.N * s.parts * rank);
    Share<T> share{turned, s.parts * rank, {}, {ad.ranks, ad.ranks + ad.count}, s.parts, s.splits};
    for (int64_t i = 0; i < ad.count; i++) share.b.push_back((const T *)ad.table[i][1]);
    Product<T, TY> product{kind, blocks, s.O,  padded, panels, packed, stride, nullptr, true, true,
                           mixed ? &share : nullptr, y, s.O};
#pragma omp parallel num_threads(threads_for((double)s.D * s.O * (s.N + 16)))
    {
#pragma omp for schedule(dynamic)
        for (int64_t b = 0; b < blocks.count(); b++) {
            const T *rows = x + blocks.starts[b] * ldx;
            pack_rows(kind, rows, ldx, blocks.rows(b), s.D, padded, packed + b * stride);
            if (apart) pack_floats(rows, ldx, blocks.rows(b), s.D, padded, floats + b * stride);
        }
        if (mixed) shrink_pieces<T>(blocks, ad, s, floats, stride, turned, share.ldh);
        product.run_all(spare_scratch.get<float>(rank * WIDE));
    }
}

extern "C" void motet_linear(int kind, int y_is_float, int64_t N, int64_t D, int64_t O, int64_t parts,
                             const int64_t *splits, const void *x, int64_t ldx, const void *panels, void *y,
                             int64_t adapters, const int64_t *bounds, const void *table, const int64_t *ranks,
                             const float *scales) {
    Shape s{N, D, O, parts, splits};
    Adapters ad{adapters, bounds, (const int64_t(*)[4])table, ranks, scales};
    if (kind == FP32) forward(FP32, s, (const float *)x, ldx, (const char *)panels, (float *)y, ad);
    else if (y_is_float) forward((Kind)kind, s, (const bf16 *)x, ldx, (const char *)panels, (float *)y, ad);
    else forward((Kind)kind, s, (const bf16 *)x, ldx, (const char *)panels, (bf16 *)y, ad);
}

// weights (O, D) into panels of 32 columns, zeros where there are none.
template <typename W> static void pack_panels(const W *w, int64_t O, int64_t D, W *out) {
    constexpr int PAIR = sizeof(W) == 2 ? 2 : 1;
    int64_t padded = ceil_div(D, PAIR) * PAIR;
#pragma omp parallel for
    for (int64_t p = 0; p < ceil_div(O, WIDE); p++) {
        W *panel = out + p * padded * WIDE;
        memset(panel, 0, sizeof(W) * padded * WIDE);
        for (int64_t c = 0; c < WIDE && p * WIDE + c < O; c++)
            for (int64_t k = 0; k < D; k++) panel[(k / PAIR * WIDE + c) * PAIR + k % PAIR] = w[(p * WIDE + c) * D + k];
    }
}

extern "C" void motet_pack(int bytes, const void *w, int64_t O, int64_t D, void *out) {
    if (bytes == 4) pack_panels((const uint32_t *)w, O, D, (uint32_t *)out);
    else pack_panels((const uint16_t *)w, O, D, (uint16_t *)out);
}
