// What every kernel here shares: the 16-wide vector, bfloat16, scratch memory.
//
// Each output element is one chain of fused multiply-adds in an order that depends on nothing but its own
// row, so no kernel's tile height, block size or thread count can change a bit. Vectors are GCC's, so the
// same code compiles for AVX-512, AVX2 and NEON; only the bfloat16 dot product is an intrinsic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <omp.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#if defined(__AVX512BF16__) && defined(__AVX512F__)
#include <immintrin.h>
#define MOTET_DOT 1
#endif

#ifdef __AVX512F__
constexpr int MAX_ROWS = 14;  // rows of a register tile: 28 accumulators, two weights, one input
#else
constexpr int MAX_ROWS = 3;
#endif
constexpr int WIDE = 32;  // columns of a panel

typedef float v16 __attribute__((vector_size(64)));
typedef float v16u __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint32_t u16v __attribute__((vector_size(64)));
typedef uint32_t u16vu __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t i16v __attribute__((vector_size(64)));
typedef uint16_t h16v __attribute__((vector_size(32)));
typedef uint16_t h16vu __attribute__((vector_size(32), aligned(2), may_alias));

typedef uint16_t bf16;  // the bits of one
enum DType { F32 = 0, BF16 = 1 };

static inline v16 splat(float x) { return x - (v16){}; }
static inline v16 load16(const float *p) { return *(const v16u *)p; }
static inline v16 load16(const bf16 *p) {
    return (v16)(__builtin_convertvector(*(const h16vu *)p, u16v) << 16);
}
static inline void store16(float *p, v16 x) { *(v16u *)p = x; }

static inline u16v rounded(v16 x) {  // to the nearest bfloat16, ties to even; a NaN stays one
    u16v u = (u16v)x;
    u16v near = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return x == x ? near : (u >> 16) | 0x40u;
}
static inline void store16(bf16 *p, v16 x) { *(h16vu *)p = __builtin_convertvector(rounded(x), h16v); }

static inline float load1(const float *p) { return *p; }
static inline float load1(const bf16 *p) {
    uint32_t u = (uint32_t)*p << 16;
    float x;
    memcpy(&x, &u, 4);
    return x;
}
static inline void store1(float *p, float x) { *p = x; }
static inline void store1(bf16 *p, float x) {
    v16 v = splat(x);
    *p = (bf16)rounded(v)[0];
}

// The first n (< 16) elements, zeros after them.
template <typename T> static inline v16 load_some(const T *p, int n) {
    v16 x = {};
    for (int i = 0; i < n; i++) x[i] = load1(p + i);
    return x;
}
template <typename T> static inline void store_some(T *p, v16 x, int n) {
    for (int i = 0; i < n; i++) store1(p + i, x[i]);
}

template <typename T> static inline v16 load_up_to(const T *p, int64_t n) {
    return n >= 16 ? load16(p) : load_some(p, n > 0 ? n : 0);
}
template <typename T> static inline void store_up_to(T *p, v16 x, int64_t n) {
    if (n >= 16) store16(p, x);
    else store_some(p, x, n > 0 ? n : 0);
}

static inline float sum16(v16 x) {  // always the same tree
    float a[16];
    memcpy(a, &x, 64);
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++) a[i] += a[i + half];
    return a[0];
}
static inline float max16(v16 x) {
    float m = x[0];
    for (int i = 1; i < 16; i++) m = x[i] > m ? x[i] : m;
    return m;
}

// e^x for x <= 88: 2^n times a polynomial on [-ln2/2, ln2/2]; below -87 exactly zero.
static inline v16 exp16(v16 x) {
    const v16 magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
    v16 n = (x * 1.44269504f + magic) - magic;
    v16 r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    v16 p = splat(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    i16v e = __builtin_convertvector(n, i16v) + 127;
    v16 scaled = p * (v16)(e << 23);
    return x < -87.0f ? (v16){} : scaled;
}

// Memory that a thread keeps for its next call; grows, never shrinks.
class Scratch {
  public:
    ~Scratch() { free(data_); }
    template <typename T> T *get(size_t count) {
        size_t bytes = count * sizeof(T) + 256;  // vector loads may read past the end, and do nothing with it
        if (bytes > size_) {
            free(data_);
            size_t page = bytes > HUGE_PAGE ? HUGE_PAGE : 4096;
            size_ = (bytes + bytes / 4 + page - 1) & ~(page - 1);
            data_ = aligned_alloc(page, size_);
            if (!data_) abort();
#ifdef __linux__
            if (page == HUGE_PAGE) madvise(data_, size_, MADV_HUGEPAGE);  // a refusal costs time only
#endif
            memset(data_, 0, size_);
        }
        return (T *)data_;
    }

  private:
    static constexpr size_t HUGE_PAGE = 2 << 20;
    void *data_ = nullptr;
    size_t size_ = 0;
};

static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Threads worth waking for so much work, in multiply-adds.
static inline int threads_for(double work) {
    int most = omp_get_max_threads();
    double worth = work / 1e6;
    return worth < 1 ? 1 : worth < most ? (int)worth : most;
}

// One stage of turning a 16 x 16 matrix: exchange the off-diagonal blocks of size HALF.
template <int HALF> static inline void exchange(u16v (&a)[16], u16v low, u16v high) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        if (i & HALF) continue;
        u16v x = a[i], y = a[i + HALF];
        a[i] = __builtin_shuffle(x, y, low);
        a[i + HALF] = __builtin_shuffle(x, y, high);
    }
}

static inline void transpose16(u16v (&a)[16]) {  // of 16 rows of 16 words, in place
    exchange<8>(a, (u16v){0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23},
                (u16v){8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31});
    exchange<4>(a, (u16v){0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27},
                (u16v){4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31});
    exchange<2>(a, (u16v){0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29},
                (u16v){2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31});
    exchange<1>(a, (u16v){0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30},
                (u16v){1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31});
}
