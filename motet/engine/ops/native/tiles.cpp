// The inner loops; see tiles.h.
#include "tiles.h"

constexpr int AHEAD = 4096;  // bytes of a panel fetched before they are needed

struct PanelF32 {
    static constexpr int STEP = 1, WORDS = 1;  // k taken at once; 32-bit words of input for them, a row
    template <int R, int V> static inline void step(const void *x, const char *w, size_t next, v16 (&acc)[R][V]) {
        const float *a = (const float *)x;
        v16 b[V];
        for (int j = 0; j < V; j++) b[j] = load16((const float *)(w + (j / 2) * next) + (j % 2) * 16);
        for (int i = 0; i < R; i++) {
            v16 s = splat(a[i]);
            for (int j = 0; j < V; j++) acc[i][j] += s * b[j];
        }
    }
};

struct PanelBf16Fma {
    static constexpr int STEP = 2, WORDS = 2;
    template <int R, int V> static inline void step(const void *x, const char *w, size_t next, v16 (&acc)[R][V]) {
        const float *a = (const float *)x;
        v16 b[V];
        for (int j = 0; j < V; j++) b[j] = (v16)(word(w, next, j) << 16);
        for (int i = 0; i < R; i++) {
            v16 s = splat(a[i]);
            for (int j = 0; j < V; j++) acc[i][j] += s * b[j];
        }
        for (int j = 0; j < V; j++) b[j] = (v16)(word(w, next, j) & 0xffff0000u);
        for (int i = 0; i < R; i++) {
            v16 s = splat(a[R + i]);
            for (int j = 0; j < V; j++) acc[i][j] += s * b[j];
        }
    }
    static inline u16v word(const char *w, size_t next, int j) {
        return *(const u16vu *)(w + (j / 2) * next + (j % 2) * 64);
    }
};

#ifdef MOTET_DOT
struct PanelBf16Dot {
    static constexpr int STEP = 2, WORDS = 1;
    template <int R, int V> static inline void step(const void *x, const char *w, size_t next, v16 (&acc)[R][V]) {
        const int32_t *a = (const int32_t *)x;
        __m512bh b[V];
        for (int j = 0; j < V; j++) b[j] = (__m512bh)PanelBf16Fma::word(w, next, j);
        for (int i = 0; i < R; i++) {
            __m512bh s = (__m512bh)_mm512_set1_epi32(a[i]);
            for (int j = 0; j < V; j++) acc[i][j] = (v16)_mm512_dpbf16_ps((__m512)acc[i][j], s, b[j]);
        }
    }
};
#else
typedef PanelBf16Fma PanelBf16Dot;
#endif

// out[P][R][32] = (out if `add`) + x[k][R] * P panels that lie `next` bytes apart.
template <typename Panel, int R, int P>
static void panel_tile(const void *x, const char *w, size_t next, int64_t steps, bool add, float *out) {
    v16 acc[R][2 * P];
    for (int i = 0; i < R; i++)
        for (int j = 0; j < 2 * P; j++)
            acc[i][j] = add ? load16(out + ((j / 2) * R + i) * WIDE + (j % 2) * 16) : (v16){};
    const float *a = (const float *)x;
    for (int64_t s = 0; s < steps; s++, a += Panel::WORDS * R, w += WIDE * 4) {
        for (int p = 0; p < P; p++) {
            __builtin_prefetch(w + p * next + AHEAD);
            __builtin_prefetch(w + p * next + AHEAD + 64);
        }
        Panel::template step<R, 2 * P>(a, w, next, acc);
    }
    for (int i = 0; i < R; i++)
        for (int j = 0; j < 2 * P; j++) store16(out + ((j / 2) * R + i) * WIDE + (j % 2) * 16, acc[i][j]);
}

template <typename Panel, int R> static PanelTile pick_panel_tile(int rows, int panels) {
    if constexpr (R == 0) return nullptr;
    else {
        if (rows != R) return pick_panel_tile<Panel, R - 1>(rows, panels);
        return panels == 1 ? panel_tile<Panel, R, 1> : panel_tile<Panel, R, panels_at_once(R)>;
    }
}

PanelTile panel_tile_for(Kind kind, int rows, int panels) {
    if (kind == FP32) return pick_panel_tile<PanelF32, MAX_ROWS>(rows, panels);
    if (kind == BF16_FMA) return pick_panel_tile<PanelBf16Fma, MAX_ROWS>(rows, panels);
    return pick_panel_tile<PanelBf16Dot, MAX_ROWS>(rows, panels);
}
