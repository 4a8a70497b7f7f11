// What works on one row at a time: norms, rotary positions, the gated activation.
#include <cmath>

#include "common.h"

template <typename T> static v16 at(const T *p, int64_t i, int64_t n) {
    return i + 16 <= n ? load16(p + i) : load_some(p + i, n - i);
}
template <typename T> static void put(T *p, int64_t i, int64_t n, v16 x) {
    if (i + 16 <= n) store16(p + i, x);
    else store_some(p + i, x, n - i);
}

template <typename T> static float scale_of(const T *x, int64_t D, float eps) {
    v16 sum = {};
    for (int64_t i = 0; i < D; i += 16) {
        v16 v = at(x, i, D);
        sum += v * v;
    }
    return 1.0f / sqrtf(sum16(sum) / D + eps);
}

// The value of x rounded to T.
template <typename T> static v16 through(v16 x);
template <> v16 through<float>(v16 x) { return x; }
template <> v16 through<bf16>(v16 x) { return (v16)(rounded(x) << 16); }

template <typename T>
static void norm(int64_t N, int64_t D, const T *x, int64_t ldx, const T *w, float eps, T *y) {
#pragma omp parallel for num_threads(threads_for(2.0 * N * D))
    for (int64_t n = 0; n < N; n++) {
        const T *row = x + n * ldx;
        float s = scale_of(row, D, eps);
        for (int64_t i = 0; i < D; i += 16) put(y + n * D, i, D, through<T>(at(row, i, D) * s) * at(w, i, D));
    }
}

// With g = w dy: dx = s (g - x s^2 mean(g x)), s = 1 / rms.
template <typename T>
static void norm_backward(int64_t N, int64_t D, const T *x, int64_t ldx, const T *w, float eps, const T *dy, T *dx) {
#pragma omp parallel for num_threads(threads_for(4.0 * N * D))
    for (int64_t n = 0; n < N; n++) {
        const T *row = x + n * ldx, *d = dy + n * D;
        float s = scale_of(row, D, eps);
        v16 sum = {};
        for (int64_t i = 0; i < D; i += 16) sum += (at(w, i, D) * at(d, i, D)) * at(row, i, D);
        float pull = s * s * s * (sum16(sum) / D);
        for (int64_t i = 0; i < D; i += 16)
            put(dx + n * D, i, D, (at(w, i, D) * at(d, i, D)) * s - at(row, i, D) * pull);
    }
}

// y = x cos + rotate_half(x) sin; backward turns the other way: y = x cos - rotate_half(x) sin, the halves' own sines.
template <typename T>
static void turn(int64_t N, int64_t H, int64_t E, const T *x, int64_t ldx, const T *cosine, const T *sine, int back,
                 T *y) {
    int64_t half = E / 2;
#pragma omp parallel for num_threads(threads_for(4.0 * N * H * E))
    for (int64_t n = 0; n < N; n++)
        for (int64_t h = 0; h < H; h++) {
            const T *row = x + n * ldx + h * E, *c = cosine + n * E, *s = sine + n * E;
            T *out = y + (n * H + h) * E;
            for (int64_t i = 0; i < half; i += 16) {
                v16 a = at(row, i, half), b = at(row + half, i, half);
                v16 sa = at(s, i, half), sb = at(s + half, i, half);
                v16 from_b = back ? b * sb : -(b * sa), from_a = back ? -(a * sa) : a * sb;
                put(out, i, half, a * at(c, i, half) + from_b);
                put(out + half, i, half, b * at(c + half, i, half) + from_a);
            }
        }
}

static v16 sigmoid(v16 x) {
    v16 low = splat(-80.0f), high = splat(80.0f);
    v16 t = x < low ? low : x > high ? high : x;
    v16 y = 1.0f / (1.0f + exp16(-t));
    return x == x ? y : x;
}

template <typename T> static void gate(int64_t N, int64_t F, const T *x, T *y) {
#pragma omp parallel for num_threads(threads_for(16.0 * N * F))
    for (int64_t n = 0; n < N; n++)
        for (int64_t i = 0; i < F; i += 16) {
            v16 g = at(x + n * 2 * F, i, F), u = at(x + n * 2 * F + F, i, F);
            put(y + n * F, i, F, (g * sigmoid(g)) * u);
        }
}

template <typename T> static void gate_backward(int64_t N, int64_t F, const T *x, const T *dy, T *dx) {
#pragma omp parallel for num_threads(threads_for(24.0 * N * F))
    for (int64_t n = 0; n < N; n++)
        for (int64_t i = 0; i < F; i += 16) {
            v16 g = at(x + n * 2 * F, i, F), u = at(x + n * 2 * F + F, i, F), d = at(dy + n * F, i, F);
            v16 s = sigmoid(g), bend = 1.0f + g * (1.0f - s);
            put(dx + n * 2 * F, i, F, (d * u) * (s * bend));
            put(dx + n * 2 * F + F, i, F, d * (g * s));
        }
}

#define EITHER(CALL)                                                                                                   \
    if (dtype == F32) {                                                                                                \
        typedef float T;                                                                                               \
        CALL;                                                                                                          \
    } else {                                                                                                           \
        typedef bf16 T;                                                                                                \
        CALL;                                                                                                          \
    }

extern "C" {
void motet_rms_norm(int dtype, int64_t N, int64_t D, const void *x, int64_t ldx, const void *w, float eps, void *y) {
    EITHER(norm(N, D, (const T *)x, ldx, (const T *)w, eps, (T *)y));
}
void motet_rms_norm_backward(int dtype, int64_t N, int64_t D, const void *x, int64_t ldx, const void *w, float eps,
                             const void *dy, void *dx) {
    EITHER(norm_backward(N, D, (const T *)x, ldx, (const T *)w, eps, (const T *)dy, (T *)dx));
}
void motet_rope(int dtype, int64_t N, int64_t H, int64_t E, const void *x, int64_t ldx, const void *cosine,
                const void *sine, int back, void *y) {
    EITHER(turn(N, H, E, (const T *)x, ldx, (const T *)cosine, (const T *)sine, back, (T *)y));
}
void motet_swiglu(int dtype, int64_t N, int64_t F, const void *x, void *y) { EITHER(gate(N, F, (const T *)x, (T *)y)); }
void motet_swiglu_backward(int dtype, int64_t N, int64_t F, const void *x, const void *dy, void *dx) {
    EITHER(gate_backward(N, F, (const T *)x, (const T *)dy, (T *)dx));
}
}
