// Rows of any element type to floats and back, and the turn of rows into lanes.
#pragma once

#include <string.h>

#include "../kernels.hpp"
#include "vector.hpp"

namespace raggeddnn::cpu {
namespace {

RAGGEDDNN_INLINE int64_t round_up(int64_t count, int64_t multiple) {
    return (count + multiple - 1) / multiple * multiple;
}

RAGGEDDNN_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
RAGGEDDNN_INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

// Element `index` of rows of any type.
RAGGEDDNN_INLINE const char* address(const void* data, Element element, int64_t index) {
    return static_cast<const char*>(data) + index * bytes_of(element);
}
RAGGEDDNN_INLINE char* address(void* data, Element element, int64_t index) {
    return static_cast<char*>(data) + index * bytes_of(element);
}

RAGGEDDNN_INLINE Floats from_bfloat16(Shorts x) {
    return floats_of(__builtin_convertvector(x, Words) << 16);
}

// To nearest, ties to even; NaN stays NaN.
RAGGEDDNN_INLINE Shorts to_bfloat16(Floats x) {
    const Words bits = bits_of(x);
    const Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const Words quiet = (bits >> 16) | 0x40;
    return __builtin_convertvector(x == x ? rounded : quiet, Shorts);
}

#if defined(__AVX512F__)
RAGGEDDNN_INLINE Floats from_float16(Shorts x) {
    return _mm512_cvtph_ps(reinterpret_cast<__m256i>(x));
}
RAGGEDDNN_INLINE Shorts to_float16(Floats x) {
    return reinterpret_cast<Shorts>(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__AVX2__)
RAGGEDDNN_INLINE Floats from_float16(Shorts x) {
    return _mm256_cvtph_ps(reinterpret_cast<__m128i>(x));
}
RAGGEDDNN_INLINE Shorts to_float16(Floats x) {
    return reinterpret_cast<Shorts>(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__aarch64__)
RAGGEDDNN_INLINE Floats from_float16(Shorts x) {
    return vcvt_f32_f16(reinterpret_cast<float16x4_t>(x));
}
RAGGEDDNN_INLINE Shorts to_float16(Floats x) { return reinterpret_cast<Shorts>(vcvt_f16_f32(x)); }
#else
// Shifted into place, exponents are 112 too low, which a product makes up for; so it does for
// subnormal numbers. Infinities and NaN have their exponent set whole.
RAGGEDDNN_INLINE Floats from_float16(Shorts x) {
    const Words wide = __builtin_convertvector(x, Words);
    const Words magnitude = (wide & 0x7fff) << 13;
    const Words finite = bits_of(floats_of(magnitude) * 0x1p112f);
    const Words special = magnitude | 0x7f800000;
    const Words value = magnitude >= splat(uint32_t{0x7c00u << 13}) ? special : finite;
    return floats_of(value | ((wide & 0x8000) << 16));
}
RAGGEDDNN_INLINE Shorts to_float16(Floats x) {
    const Words bits = bits_of(x);
    const Words magnitude = bits & 0x7fffffff;
    const Words normal = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    // Adding 1/2 leaves a whole number of 2^-24 in the low bits.
    const Words tiny = bits_of(floats_of(magnitude) + 0.5f) - bits_of(splat(0.5f));
    Words half = magnitude < splat(uint32_t{113u << 23}) ? tiny : normal;
    half = magnitude >= splat(uint32_t{0x477ff000u}) ? splat(uint32_t{0x7c00}) : half;
    half = magnitude > splat(uint32_t{0x7f800000u}) ? splat(uint32_t{0x7e00}) : half;
    return __builtin_convertvector(half | ((bits >> 16) & 0x8000), Shorts);
}
#endif

RAGGEDDNN_INLINE Floats load_as_floats(Element element, const char* at) {
    if (element == Element::FLOAT32) return load(reinterpret_cast<const float*>(at));
    const Shorts bits = load(reinterpret_cast<const uint16_t*>(at));
    return element == Element::BFLOAT16 ? from_bfloat16(bits) : from_float16(bits);
}

RAGGEDDNN_INLINE void store_floats(Element element, char* at, Floats x) {
    if (element == Element::FLOAT32) return store(reinterpret_cast<float*>(at), x);
    store(reinterpret_cast<uint16_t*>(at),
          element == Element::BFLOAT16 ? to_bfloat16(x) : to_float16(x));
}

// The last `count` < LANES elements of a row; lanes past them are 0.
RAGGEDDNN_INLINE Floats load_tail(Element element, const char* at, int64_t count) {
    char tail[LANES * 4] = {};
    memcpy(tail, at, static_cast<size_t>(count * bytes_of(element)));
    return load_as_floats(element, tail);
}

RAGGEDDNN_INLINE void store_tail(Element element, char* at, Floats x, int64_t count) {
    char tail[LANES * 4];
    store_floats(element, tail, x);
    memcpy(at, tail, static_cast<size_t>(count * bytes_of(element)));
}

RAGGEDDNN_INLINE float load_one(Element element, const void* data, int64_t index) {
    const char* at = address(data, element, index);
    if (element == Element::FLOAT32) return *reinterpret_cast<const FloatAt*>(at);
    uint16_t one = 0;
    memcpy(&one, at, sizeof(one));
    Shorts bits{};
    bits[0] = one;
    return (element == Element::BFLOAT16 ? from_bfloat16(bits) : from_float16(bits))[0];
}

// The rows [first, first + count) as floats, `padded` (a multiple of LANES) apart, 0 past their
// width.
RAGGEDDNN_INLINE void read_rows(Element element, const Rows& rows, int64_t first, int64_t count,
                                int64_t width, float* to, int64_t padded) {
    for (int64_t row = 0; row < count; ++row) {
        const char* from = address(rows.data, element, (first + row) * rows.stride);
        float* out = to + row * padded;
        int64_t col = 0;
        for (; col + LANES <= width; col += LANES) {
            store(out + col, load_as_floats(element, from + col * bytes_of(element)));
        }
        if (col < width) {
            store(out + col, load_tail(element, from + col * bytes_of(element), width - col));
        }
    }
}

// Writes rows of floats, each times `factor`.
RAGGEDDNN_INLINE void write_rows(const float* from, int64_t padded, float factor, Element element,
                                 const Rows& rows, int64_t first, int64_t count, int64_t width) {
    for (int64_t row = 0; row < count; ++row) {
        const float* in = from + row * padded;
        char* out = address(rows.data, element, (first + row) * rows.stride);
        int64_t col = 0;
        for (; col + LANES <= width; col += LANES) {
            store_floats(element, out + col * bytes_of(element), load(in + col) * factor);
        }
        if (col < width) {
            store_tail(element, out + col * bytes_of(element), load(in + col) * factor,
                       width - col);
        }
    }
}

// Turns words: to[col][row] = from[row][col], for the first `rows` rows and `cols` columns.
// `to_stride` is the distance of columns in `to`; rows past `rows` are left alone. Words of `from`
// may be pairs of halves, which lie at any even address.
RAGGEDDNN_INLINE void turn_by_words(const uint32_t* from, int64_t from_stride, int64_t rows,
                                    int64_t cols, uint32_t* to, int64_t to_stride) {
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t col = 0; col < cols; ++col) {
            to[col * to_stride + row] =
                *reinterpret_cast<const WordAt*>(from + row * from_stride + col);
        }
    }
}

#if defined(__AVX2__)
// 8 rows of 8 words.
RAGGEDDNN_INLINE void turn_square(const uint32_t* from, int64_t from_stride, uint32_t* to,
                                  int64_t to_stride) {
    __m256 r[8];
    __m256 t[8];
    const float* in = reinterpret_cast<const float*>(from);
    float* out = reinterpret_cast<float*>(to);
    RAGGEDDNN_UNROLL
    for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(in + i * from_stride);
    RAGGEDDNN_UNROLL
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    RAGGEDDNN_UNROLL
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    RAGGEDDNN_UNROLL
    for (int i = 0; i < 4; ++i) {
        _mm256_storeu_ps(out + i * to_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(out + (i + 4) * to_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}
#endif

RAGGEDDNN_INLINE void turn(const uint32_t* from, int64_t from_stride, int64_t rows, int64_t cols,
                           uint32_t* to, int64_t to_stride) {
#if defined(__AVX2__)
    const int64_t whole_rows = rows / 8 * 8;
    const int64_t whole_cols = cols / 8 * 8;
    for (int64_t row = 0; row < whole_rows; row += 8) {
        for (int64_t col = 0; col < whole_cols; col += 8) {
            turn_square(from + row * from_stride + col, from_stride, to + col * to_stride + row,
                        to_stride);
        }
    }
    turn_by_words(from + whole_rows * from_stride, from_stride, rows - whole_rows, cols,
                  to + whole_rows, to_stride);
    turn_by_words(from + whole_cols, from_stride, whole_rows, cols - whole_cols,
                  to + whole_cols * to_stride, to_stride);
#else
    turn_by_words(from, from_stride, rows, cols, to, to_stride);
#endif
}

RAGGEDDNN_INLINE void turn(const float* from, int64_t from_stride, int64_t rows, int64_t cols,
                           float* to, int64_t to_stride) {
    turn(reinterpret_cast<const uint32_t*>(from), from_stride, rows, cols,
         reinterpret_cast<uint32_t*>(to), to_stride);
}

}  // namespace
}  // namespace raggeddnn::cpu
