// Products of a panel: a few rows, read one element at a time and broadcast, times vectors of
// lanes. A unit is what one step of the sum takes of either side: a float, or a pair of bfloat16
// numbers where the target has an instruction for them.
#pragma once

#include "vector.hpp"

namespace raggeddnn::cpu {
namespace {

struct FloatUnit {
    using Word = float;
    using Vector = Floats;
    static constexpr int64_t ELEMENTS = 1;  // that a word holds
    static RAGGEDDNN_INLINE Vector broadcast(const char* at) {
        return splat(*reinterpret_cast<const FloatAt*>(at));
    }
    static RAGGEDDNN_INLINE Floats add(Vector a, Vector b, Floats sum) {
        return multiply_add(a, b, sum);
    }
};

#if defined(__AVX512BF16__)
struct PairUnit {
    using Word = uint32_t;
    using Vector = Words;
    static constexpr int64_t ELEMENTS = 2;
    static RAGGEDDNN_INLINE Vector broadcast(const char* at) {
        return splat(uint32_t{*reinterpret_cast<const WordAt*>(at)});
    }
    static RAGGEDDNN_INLINE Floats add(Vector a, Vector b, Floats sum) {
        return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
    }
    // Two rows of lanes as words, `low` in their lower halves.
    static RAGGEDDNN_INLINE Vector pair_of(Floats low, Floats high) {
        const auto halves = (__m512i)_mm512_cvtne2ps_pbh(high, low);
        Words order;  // of two halves each: lane i of low, lane i of high
        for (int i = 0; i < LANES; ++i) order[i] = static_cast<uint32_t>(i | (i + LANES) << 16);
        return reinterpret_cast<Words>(
            _mm512_permutexvar_epi16(reinterpret_cast<__m512i>(order), halves));
    }
};
#endif

// Word (row, step) lies at `at + row * row_bytes + step * step_bytes`.
struct Broadcasts {
    const char* at;
    int64_t row_bytes;
    int64_t step_bytes;

    RAGGEDDNN_INLINE Broadcasts from_row(int64_t row) const {
        return {at + row * row_bytes, row_bytes, step_bytes};
    }
    RAGGEDDNN_INLINE Broadcasts from_step(int64_t step) const {
        return {at + step * step_bytes, row_bytes, step_bytes};
    }
};

// sums[row][v] += the sum over steps of a(row, step) * b[step * stride + v * LANES + lane].
template <class Unit, int COUNT, int WIDTH>
RAGGEDDNN_INLINE void add_product(Floats (&sums)[COUNT][WIDTH], const Broadcasts& a,
                                  const typename Unit::Word* b, int64_t stride, int64_t steps) {
    const char* at = a.at;
    for (int64_t step = 0; step < steps; ++step) {
        typename Unit::Vector lanes[WIDTH];
        RAGGEDDNN_UNROLL
        for (int v = 0; v < WIDTH; ++v) lanes[v] = load(b + v * LANES);
        RAGGEDDNN_UNROLL
        for (int row = 0; row < COUNT; ++row) {
            const typename Unit::Vector one = Unit::broadcast(at + row * a.row_bytes);
            RAGGEDDNN_UNROLL
            for (int v = 0; v < WIDTH; ++v) {
                sums[row][v] = Unit::add(one, lanes[v], sums[row][v]);
            }
        }
        at += a.step_bytes;
        b += stride;
    }
}

// The same in parts of some steps, each summed by itself first: errors grow with the parts.
template <class Unit, int COUNT, int WIDTH>
RAGGEDDNN_INLINE void add_long_product(Floats (&sums)[COUNT][WIDTH], const Broadcasts& a,
                                       const typename Unit::Word* b, int64_t stride,
                                       int64_t steps) {
    constexpr int64_t part_steps = 64;
    add_product<Unit>(sums, a, b, stride, steps < part_steps ? steps : part_steps);
    for (int64_t step = part_steps; step < steps; step += part_steps) {
        const int64_t left = steps - step;
        Floats part[COUNT][WIDTH] = {};
        add_product<Unit>(part, a.from_step(step), b + step * stride, stride,
                          left < part_steps ? left : part_steps);
        RAGGEDDNN_UNROLL
        for (int row = 0; row < COUNT; ++row) {
            RAGGEDDNN_UNROLL
            for (int v = 0; v < WIDTH; ++v) sums[row][v] += part[row][v];
        }
    }
}

template <int N>
struct Count {
    static constexpr int value = N;
};

// Calls body(Count<n>, first) over `count` rows, as many at a time as registers hold.
template <int MOST, class Body>
RAGGEDDNN_INLINE void for_rows(int64_t first, int64_t count, Body&& body) {
    for (; first + MOST <= count; first += MOST) body(Count<MOST>{}, first);
    if constexpr (MOST > 1) for_rows<MOST / 2>(first, count, body);
}

template <class Body>
RAGGEDDNN_INLINE void for_rows(int64_t count, Body&& body) {
    for_rows<ROWS>(0, count, body);
}

// to[row][col] += the product, for rows of `width` (a multiple of LANES) floats, `width` apart.
template <class Unit>
RAGGEDDNN_INLINE void add_rows(float* to, int64_t width, int64_t rows, const Broadcasts& a,
                               const typename Unit::Word* b, int64_t steps) {
    const auto add = [&](auto vectors, int64_t col) __attribute__((always_inline)) {
        constexpr int WIDTH = decltype(vectors)::value;
        for_rows(rows, [&](auto count, int64_t first) __attribute__((always_inline)) {
            constexpr int COUNT = decltype(count)::value;
            Floats sums[COUNT][WIDTH];
            float* at = to + first * width + col;
            RAGGEDDNN_UNROLL
            for (int row = 0; row < COUNT; ++row) {
                RAGGEDDNN_UNROLL
                for (int v = 0; v < WIDTH; ++v) sums[row][v] = load(at + row * width + v * LANES);
            }
            add_product<Unit>(sums, a.from_row(first), b + col, width, steps);
            RAGGEDDNN_UNROLL
            for (int row = 0; row < COUNT; ++row) {
                RAGGEDDNN_UNROLL
                for (int v = 0; v < WIDTH; ++v) store(at + row * width + v * LANES, sums[row][v]);
            }
        });
    };
    int64_t col = 0;
    for (; col + 2 * LANES <= width; col += 2 * LANES) add(Count<2>{}, col);
    if (col < width) add(Count<1>{}, col);
}

}  // namespace
}  // namespace raggeddnn::cpu
