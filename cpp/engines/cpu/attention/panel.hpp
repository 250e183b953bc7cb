// A panel: some rows of queries, one to a lane. What both passes need of it: the queries turned
// into lanes, blocks of keys and values as products read them, and which lanes see which keys.
#pragma once

#include <math.h>

#include "../simd/element.hpp"
#include "../simd/products.hpp"

namespace raggeddnn::cpu {
namespace {

constexpr int MAX_LANES = VECTORS * LANES;
constexpr int64_t BLOCK_KEYS = 64;

constexpr float LOG2_E = 1.44269504088896340736f;

// Cuts memory into arrays; without memory it counts the bytes.
class ScratchCutter {
public:
    RAGGEDDNN_INLINE explicit ScratchCutter(void* memory) : begin_(static_cast<char*>(memory)) {}
    template <class T>
    RAGGEDDNN_INLINE T* take(int64_t count) {
        T* array = begin_ ? reinterpret_cast<T*>(begin_ + used_) : nullptr;
        used_ += round_up(count * int64_t{sizeof(T)}, MEMORY_ALIGNMENT);
        return array;
    }
    RAGGEDDNN_INLINE int64_t used() const { return used_; }

private:
    char* begin_;
    int64_t used_ = 0;
};

RAGGEDDNN_INLINE int64_t padded(int64_t width) { return round_up(width, LANES); }

template <class Unit>
RAGGEDDNN_INLINE int64_t words_of(int64_t width) {
    return (width + Unit::ELEMENTS - 1) / Unit::ELEMENTS;
}

// What turns a score, the product of q (its sign turned as below) and k, into an exponent of 2, and
// into natural units. A maximum of scores needs a factor above 0, so q takes the sign of the scale,
// and is 0 where the scale is.
struct ScoreUnit {
    float scale;     // from the product to natural units
    float exponent;  // from what the softmax sees to exponents of 2
    float natural;   // from there to natural units
    bool is_negative;
    bool is_zero;

    RAGGEDDNN_INLINE static ScoreUnit of(const Head& head) {
        ScoreUnit unit{};
        unit.is_negative = head.scale < 0.0f;
        unit.is_zero = head.scale == 0.0f;
        const float magnitude = unit.is_negative ? -head.scale : head.scale;
        unit.scale = unit.is_zero ? 1.0f : magnitude;
        unit.natural = head.bias.data ? 1.0f : unit.scale;
        unit.exponent = unit.natural * LOG2_E;
        if (unit.exponent == INF && unit.natural < INF) unit.exponent = unit.natural;
        return unit;
    }
};

// The keys [begin, end) that some row of a panel sees.
struct Keys {
    int64_t begin;
    int64_t end;
};

// Some rows of a head, at most MAX_LANES.
struct PanelRows {
    int64_t first;
    int64_t rows;
};

RAGGEDDNN_INLINE Keys keys_of(const Head& head, int64_t first, int64_t rows) {
    return {most(0, first + head.band.first), least(head.keys, first + rows + head.band.last)};
}

// Whether every row of the panel sees all of the block.
RAGGEDDNN_INLINE bool sees_all(const Head& head, int64_t first, int64_t rows, const Keys& block) {
    return block.begin >= first + rows - 1 + head.band.first &&
           block.end - 1 <= first + head.band.last;
}

// The lanes of a panel beside the keys of a block.
template <int WIDTH>
struct LaneBounds {
    Ints first[WIDTH];
    Ints last[WIDTH];

    RAGGEDDNN_INLINE LaneBounds(const Head& head, int64_t row, int64_t key) {
        constexpr int64_t far = 1 << 20;  // beyond any block
        const int64_t low = most(-far, least(far, row + head.band.first - key));
        const int64_t high = most(-far, least(far, row + head.band.last - key));
        RAGGEDDNN_UNROLL
        for (int v = 0; v < WIDTH; ++v) {
            Ints lane;
            for (int i = 0; i < LANES; ++i) lane[i] = v * LANES + i;
            first[v] = lane + splat(static_cast<int32_t>(low));
            last[v] = lane + splat(static_cast<int32_t>(high));
        }
    }
    // All bits set where the key is visible.
    RAGGEDDNN_INLINE Ints sees(int v, int64_t key) const {
        const Ints at = splat(static_cast<int32_t>(key));
        return (at >= first[v]) & (at <= last[v]);
    }
};

// Turns rows [first, first + count) of a half's or float's matrix into lanes: word `step` of row
// `row` comes to to[step * lanes + row]; lanes past `count` are 0.
template <class Unit>
RAGGEDDNN_INLINE void turn_rows(Element element, const Rows& rows, int64_t first, int64_t count,
                                int64_t width, int64_t lanes, typename Unit::Word* to,
                                float* spare) {
    const int64_t steps = words_of<Unit>(width);
    if (count < lanes) memset(to, 0, static_cast<size_t>(steps * lanes) * sizeof(*to));
    if constexpr (Unit::ELEMENTS == 2) {
        const char* from = address(rows.data, element, first * rows.stride);
        if (width % 2 == 0 && rows.stride % 2 == 0) {
            turn(reinterpret_cast<const uint32_t*>(from), rows.stride / 2, count, steps, to, lanes);
            return;
        }
        uint32_t* packed = reinterpret_cast<uint32_t*>(spare);
        for (int64_t row = 0; row < count; ++row) {
            packed[row * steps + steps - 1] = 0;
            memcpy(packed + row * steps, from + row * rows.stride * 2,
                   static_cast<size_t>(width * 2));
        }
        turn(packed, steps, count, steps, to, lanes);
    } else {
        if (element == Element::FLOAT32) {
            turn(reinterpret_cast<const float*>(rows.data) + first * rows.stride, rows.stride,
                 count, width, to, lanes);
            return;
        }
        read_rows(element, rows, first, count, width, spare, padded(width));
        turn(spare, padded(width), count, width, to, lanes);
    }
}

// Gives queries in lanes the sign of the scale.
template <class Unit>
RAGGEDDNN_INLINE void apply_sign(const ScoreUnit& unit, typename Unit::Word* q, int64_t count) {
    if (!unit.is_negative && !unit.is_zero) return;
    const uint32_t sign = Unit::ELEMENTS == 2 ? 0x80008000u : 0x80000000u;
    uint32_t* words = reinterpret_cast<uint32_t*>(q);
    for (int64_t i = 0; i < count; i += LANES) {
        store(words + i, unit.is_zero ? Words{} : load(words + i) ^ sign);
    }
}

// Rows 2i and 2i + 1 side by side: to[i * padded + col] holds both elements of a column. A row past
// the last one is 0.
RAGGEDDNN_INLINE void pair_rows(const Rows& rows, int64_t first, int64_t count, int64_t width,
                                uint32_t* to) {
    const int64_t stride = padded(width);
    for (int64_t row = 0; row < count; row += 2) {
        const char* low = address(rows.data, Element::BFLOAT16, (first + row) * rows.stride);
        const char* high = low + rows.stride * 2;
        const bool has_high = row + 1 < count;
        uint32_t* out = to + row / 2 * stride;
        for (int64_t col = 0; col < width; col += LANES) {
            const int64_t left = least(LANES, width - col);
            const auto half = [&](const char* from) __attribute__((always_inline)) {
                if (left == LANES) return load(reinterpret_cast<const uint16_t*>(from + col * 2));
                uint16_t tail[LANES] = {};
                memcpy(tail, from + col * 2, static_cast<size_t>(left * 2));
                return load(tail);
            };
            Words words = __builtin_convertvector(half(low), Words);
            if (has_high) words |= __builtin_convertvector(half(high), Words) << 16;
            store(out + col, words);
        }
    }
}

// Rows of keys or values of a block as the products of scores read them.
template <class Unit>
RAGGEDDNN_INLINE Broadcasts block_rows(Element element, const Rows& rows, int64_t first,
                                       int64_t count, int64_t width, float* spare) {
    const char* from = address(rows.data, element, first * rows.stride);
    if constexpr (Unit::ELEMENTS == 2) {
        if (width % 2 == 0) return {from, rows.stride * 2, 4};
        const int64_t bytes = (width + 1) * 2;
        char* to = reinterpret_cast<char*>(spare);
        for (int64_t row = 0; row < count; ++row) {
            memcpy(to + row * bytes, from + row * rows.stride * 2, static_cast<size_t>(width * 2));
            memset(to + row * bytes + width * 2, 0, 2);
        }
        return {to, bytes, 4};
    } else {
        if (element == Element::FLOAT32) return {from, rows.stride * 4, 4};
        read_rows(element, rows, first, count, width, spare, padded(width));
        return {reinterpret_cast<const char*>(spare), padded(width) * 4, 4};
    }
}

// The same rows as the products of outputs read them: a row of the product is a column here, a step
// a key, or a pair of keys. `read` is what block_rows made of them.
template <class Unit>
RAGGEDDNN_INLINE Broadcasts block_columns(const Rows& rows, int64_t first, int64_t count,
                                          int64_t width, const Broadcasts& read, float* spare) {
    if constexpr (Unit::ELEMENTS == 2) {
        uint32_t* pairs = reinterpret_cast<uint32_t*>(spare);
        pair_rows(rows, first, count, width, pairs);
        return {reinterpret_cast<const char*>(pairs), 4, padded(width) * 4};
    } else {
        return {read.at, 4, read.row_bytes};
    }
}

// to[key * lanes + lane]: the bias of a panel's rows at some keys, at most BLOCK_KEYS; anything in
// other lanes. `spare`: [rows of the panel][BLOCK_KEYS].
RAGGEDDNN_INLINE void read_bias(const BiasRows& bias, const PanelRows& panel, const Keys& keys,
                                int64_t lanes, float* spare, float* to) {
    const int64_t count = keys.end - keys.begin;
    const int64_t first = panel.first * bias.row_stride + keys.begin * bias.key_stride;
    if (bias.row_stride == 0) {
        for (int64_t i = 0; i < count; ++i) {
            const float one = load_one(bias.element, bias.data, first + i * bias.key_stride);
            for (int64_t lane = 0; lane < lanes; lane += LANES) {
                store(to + i * lanes + lane, splat(one));
            }
        }
        return;
    }
    if (panel.rows < lanes) memset(to, 0, static_cast<size_t>(count * lanes) * sizeof(float));
    if (bias.key_stride == 1) {
        const char* from = address(bias.data, bias.element, first);
        if (bias.element == Element::FLOAT32) {
            turn(reinterpret_cast<const float*>(from), bias.row_stride, panel.rows, count, to,
                 lanes);
            return;
        }
        read_rows(bias.element, {const_cast<char*>(from), bias.row_stride}, 0, panel.rows, count,
                  spare, padded(count));
        turn(spare, padded(count), panel.rows, count, to, lanes);
        return;
    }
    for (int64_t lane = 0; lane < panel.rows; ++lane) {
        int64_t at = first + lane * bias.row_stride;
        for (int64_t i = 0; i < count; ++i, at += bias.key_stride) {
            to[i * lanes + lane] = load_one(bias.element, bias.data, at);
        }
    }
}

// to[key * lanes + lane]: what dropout multiplies probabilities with.
RAGGEDDNN_INLINE void read_dropout(const DropoutRows& dropout, int64_t row, int64_t key,
                                   int64_t count, int64_t lanes, float* to) {
    const auto keep = static_cast<float>(dropout.drawn.keep_scale);
    for (int64_t i = 0; i < count; ++i) {
        for (int64_t lane = 0; lane < lanes; ++lane) {
            const bool is_kept =
                dropout.drawn.keeps(dropout.batch, dropout.head, row + lane, key + i);
            to[i * lanes + lane] = is_kept ? keep : 0.0f;
        }
    }
}

// Scores in natural units, with their bias. Where that is -inf the key does not count, whatever its
// product is, NaN included.
RAGGEDDNN_INLINE void add_bias(float* scores, const float* bias, float scale, int64_t count) {
    for (int64_t i = 0; i < count; i += LANES) {
        const Floats added = load(bias + i);
        const Floats sum = multiply_add(load(scores + i), splat(scale), added);
        store(scores + i, added == splat(-INF) ? added : sum);
    }
}

// The number of vectors that hold so many rows, as a type: body(Count<n>).
template <int N, class Body>
RAGGEDDNN_INLINE void with_vectors(int64_t vectors, Body&& body) {
    if constexpr (N > 1) {
        if (vectors < N) return with_vectors<N - 1>(vectors, body);
    }
    body(Count<N>{});
}

// Calls body(unit) with the unit that the target has for a type.
template <class Body>
RAGGEDDNN_INLINE auto with_unit(Element element, Body&& body) {
#if defined(__AVX512BF16__)
    if (element == Element::BFLOAT16) return body(PairUnit{});
#endif
    (void)element;
    return body(FloatUnit{});
}

}  // namespace
}  // namespace raggeddnn::cpu
