// The vectors of the SIMD target that a file is compiled for, in as few words as attention needs.
// Arithmetic and comparisons are the compiler's vector extension; what it does not say well
// (fused multiply-add, maxima, powers of two) is written once for each target. Everything is
// inlined into the file that includes it: the linker must never take a function of one target for
// that of another.
#pragma once

#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define RAGGEDDNN_INLINE inline __attribute__((always_inline))
#define RAGGEDDNN_UNROLL _Pragma("GCC unroll 16")

namespace raggeddnn::cpu {
namespace {

// ROWS x VECTORS sums, VECTORS loads and a broadcast stay in the registers.
#if defined(__AVX512F__)
constexpr int LANES = 16;
constexpr int ROWS = 8;
constexpr int VECTORS = 3;
#elif defined(__AVX2__)
constexpr int LANES = 8;
constexpr int ROWS = 4;
constexpr int VECTORS = 3;
#elif defined(__aarch64__)
constexpr int LANES = 4;
constexpr int ROWS = 4;
constexpr int VECTORS = 6;
#else
constexpr int LANES = 4;
constexpr int ROWS = 4;
constexpr int VECTORS = 2;
#endif

typedef float Floats __attribute__((vector_size(LANES * 4)));
typedef double Doubles __attribute__((vector_size(LANES * 8)));
typedef int32_t Ints __attribute__((vector_size(LANES * 4)));
typedef uint32_t Words __attribute__((vector_size(LANES * 4)));
typedef uint16_t Shorts __attribute__((vector_size(LANES * 2)));

// The same in memory, at any address.
typedef float FloatsAt __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef uint32_t WordsAt __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t IntsAt __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef uint16_t ShortsAt __attribute__((vector_size(LANES * 2), aligned(2), may_alias));
typedef float FloatAt __attribute__((aligned(2), may_alias));
typedef uint32_t WordAt __attribute__((aligned(2), may_alias));

RAGGEDDNN_INLINE Floats load(const float* p) { return *reinterpret_cast<const FloatsAt*>(p); }
RAGGEDDNN_INLINE Words load(const uint32_t* p) { return *reinterpret_cast<const WordsAt*>(p); }
RAGGEDDNN_INLINE Ints load(const int32_t* p) { return *reinterpret_cast<const IntsAt*>(p); }
RAGGEDDNN_INLINE Shorts load(const uint16_t* p) { return *reinterpret_cast<const ShortsAt*>(p); }
RAGGEDDNN_INLINE void store(float* p, Floats x) { *reinterpret_cast<FloatsAt*>(p) = x; }
RAGGEDDNN_INLINE void store(uint32_t* p, Words x) { *reinterpret_cast<WordsAt*>(p) = x; }
RAGGEDDNN_INLINE void store(int32_t* p, Ints x) { *reinterpret_cast<IntsAt*>(p) = x; }
RAGGEDDNN_INLINE void store(uint16_t* p, Shorts x) { *reinterpret_cast<ShortsAt*>(p) = x; }

RAGGEDDNN_INLINE Floats splat(float x) { return x - Floats{}; }
RAGGEDDNN_INLINE Words splat(uint32_t x) { return x - Words{}; }
RAGGEDDNN_INLINE Ints splat(int32_t x) { return x - Ints{}; }

RAGGEDDNN_INLINE Words bits_of(Floats x) { return reinterpret_cast<Words>(x); }
RAGGEDDNN_INLINE Floats floats_of(Words x) { return reinterpret_cast<Floats>(x); }

constexpr float INF = __builtin_inff();

// a * b + c, rounded once where the target can.
RAGGEDDNN_INLINE Floats multiply_add(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
    return _mm256_fmadd_ps(a, b, c);
#elif defined(__aarch64__)
    return vfmaq_f32(c, a, b);
#else
    return a * b + c;
#endif
}

RAGGEDDNN_INLINE Floats larger(Floats a, Floats b) {
#if defined(__AVX512F__)
    return _mm512_max_ps(a, b);
#elif defined(__AVX2__)
    return _mm256_max_ps(a, b);
#elif defined(__aarch64__)
    return vmaxq_f32(a, b);
#else
    return a > b ? a : b;
#endif
}

// 2^x with a relative error of at most 8e-8 (measured over the fractions), exactly 1 for 0, and
// exactly 0 for -inf and wherever the result is far below the least normal number; NaN stays NaN.
// The polynomial is minimax over [-1/2, 1/2] in relative error (2e-9, by weighted least squares)
// among those that are 1 at 0.
RAGGEDDNN_INLINE Floats exp2(Floats x) {
#if defined(__AVX512F__)
    const Floats fraction = _mm512_reduce_ps(x, 8);
#else
    // Its last bit is worth 1: adding it rounds to a whole number, the low bits of the sum.
    const Floats whole = splat(0x1.8p23f);
    const Floats bounded = x < splat(-126.0f)  ? splat(-126.0f)
                           : x > splat(127.0f) ? splat(127.0f)
                                               : x;
    const Floats rounded = bounded + whole;
    const Floats fraction = bounded - (rounded - whole);
#endif
    Floats p = splat(0x1.41fbbcp-13f);
    p = multiply_add(p, fraction, splat(0x1.5f3e52p-10f));
    p = multiply_add(p, fraction, splat(0x1.3b2d4cp-7f));
    p = multiply_add(p, fraction, splat(0x1.c6aee8p-5f));
    p = multiply_add(p, fraction, splat(0x1.ebfbdcp-3f));
    p = multiply_add(p, fraction, splat(0x1.62e430p-1f));
    p = multiply_add(p, fraction, splat(1.0f));
#if defined(__AVX512F__)
    return _mm512_scalef_ps(p, x - fraction);
#else
    const Floats scaled = floats_of(bits_of(p) + (bits_of(rounded) << 23));
    // Beyond 127, infinity; NaN as it is, whose other bits would reach the sign and exponent above.
    return x < splat(-126.0f) ? Floats{} : x <= splat(127.0f) ? scaled : x + splat(INF);
#endif
}

}  // namespace
}  // namespace raggeddnn::cpu
