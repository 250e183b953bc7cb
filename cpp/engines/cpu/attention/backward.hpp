// The backward pass of a panel beside a chunk of keys: weights are computed again from the
// statistics (Dao 2022, "FlashAttention", algorithm 4). Gradients of keys and values are summed
// over the panels of a chunk by one caller, panel after panel, in an order that its sequence alone
// sets; the gradient of the queries is summed over chunks in theirs.
#pragma once

#include "panel.hpp"

namespace raggeddnn::cpu {
namespace {

template <class Unit>
struct BackwardScratch {
    using Word = typename Unit::Word;
    Word* q;        // [words of width][lanes]
    Word* d_o;      // [words of value width][lanes]
    float* q_rows;  // [lanes][padded width], where units are pairs of rows [lanes / 2]
    float* d_o_rows;
    float* dq;   // [width][lanes]
    float* lse;  // [lanes]
    float* delta;
    float* d_lse;
    float* has_others;      // 0 where a row sees a single key, whose weight nothing changes; else 1
    float* weights;         // [BLOCK_KEYS][lanes]: scores, then weights
    float* gradients;       // of scores
    uint16_t* weight_rows;  // the same rounded, where units are pairs: two rows of lanes are one
    uint16_t* gradient_rows;
    uint32_t* gradient_pairs;  // of keys
    float* factors;
    float* keys;  // of a block, where they are not read in place
    float* values;
    float* key_columns;
    float* rows;  // [lanes][widest], or of a bias [lanes][BLOCK_KEYS]
    float* more_rows;
    float* d_o_copy;  // [lanes][value width] elements
    int64_t used;

    RAGGEDDNN_INLINE BackwardScratch(void* memory, int64_t width, int64_t value_width) {
        ScratchCutter cutter(memory);
        constexpr int64_t block = BLOCK_KEYS * MAX_LANES;
        constexpr int64_t pairs = Unit::ELEMENTS == 2 ? block : 0;
        const int64_t widest = MAX_LANES * padded(most(BLOCK_KEYS, most(width, value_width)));
        q = cutter.take<Word>(words_of<Unit>(width) * MAX_LANES);
        d_o = cutter.take<Word>(words_of<Unit>(value_width) * MAX_LANES);
        q_rows = cutter.take<float>(MAX_LANES * padded(width));
        d_o_rows = cutter.take<float>(MAX_LANES * padded(value_width));
        dq = cutter.take<float>(width * MAX_LANES);
        lse = cutter.take<float>(MAX_LANES);
        delta = cutter.take<float>(MAX_LANES);
        d_lse = cutter.take<float>(MAX_LANES);
        has_others = cutter.take<float>(MAX_LANES);
        weights = cutter.take<float>(block);
        gradients = cutter.take<float>(block);
        weight_rows = cutter.take<uint16_t>(pairs);
        gradient_rows = cutter.take<uint16_t>(pairs);
        gradient_pairs = cutter.take<uint32_t>(pairs / 2);
        factors = cutter.take<float>(block);
        keys = cutter.take<float>(BLOCK_KEYS * padded(width));
        values = cutter.take<float>(BLOCK_KEYS * padded(value_width));
        key_columns = cutter.take<float>(BLOCK_KEYS * padded(width));
        rows = cutter.take<float>(widest);
        more_rows = cutter.take<float>(widest);
        d_o_copy = cutter.take<float>(MAX_LANES * value_width);
        used = cutter.used();
    }
};

struct BackwardBlock {
    Keys range;
    Broadcasts keys;
    Broadcasts values;
    Broadcasts key_columns;
    KeyGradients sums;  // of the block's first key

    RAGGEDDNN_INLINE int64_t count() const { return range.end - range.begin; }
};

template <class Unit, int WIDTH>
class BackwardStep {
public:
    RAGGEDDNN_INLINE BackwardStep(const BackwardHead& head, const ScoreUnit& unit,
                                  const PanelRows& panel, const BackwardScratch<Unit>& scratch)
        : head_(head), unit_(unit), panel_(panel), scratch_(scratch) {}

    RAGGEDDNN_INLINE void run(const BackwardBlock& block) {
        differentiate(block);
        add_gradients(block);
    }

    // Leaves the weights and the gradients of the scores in the scratch memory.
    RAGGEDDNN_INLINE void differentiate(const BackwardBlock& block) {
        multiply(block.keys, scratch_.q, head_.width, block.count(), scratch_.weights);
        multiply(block.values, scratch_.d_o, head_.value_width, block.count(), scratch_.gradients);
        const bool is_masked = !sees_all(head_, panel_.first, panel_.rows, block.range);
        if (head_.bias.data) {
            read_bias(head_.bias, panel_, block.range, STRIDE, scratch_.rows, scratch_.factors);
            add_bias(scratch_.weights, scratch_.factors, unit_.scale, block.count() * STRIDE);
        }
        if (head_.dropout.is_on) {
            read_dropout(head_.dropout, panel_.first, block.range.begin, block.count(), STRIDE,
                         scratch_.factors);
        }
        if (is_masked || head_.bias.data || head_.dropout.is_on) {
            differentiate_pairs<true>(block);
        } else {
            differentiate_pairs<false>(block);
        }
    }

private:
    static constexpr int64_t STRIDE = WIDTH * LANES;

    // to[key][lane] = the product of a row of the block and a query's row.
    RAGGEDDNN_INLINE void multiply(const Broadcasts& rows, const typename Unit::Word* lanes,
                                   int64_t width, int64_t keys, float* to) {
        for_rows(keys, [&](auto count, int64_t first) __attribute__((always_inline)) {
            constexpr int COUNT = decltype(count)::value;
            Floats sums[COUNT][WIDTH] = {};
            add_long_product<Unit>(sums, rows.from_row(first), lanes, STRIDE,
                                   words_of<Unit>(width));
            RAGGEDDNN_UNROLL
            for (int row = 0; row < COUNT; ++row) {
                RAGGEDDNN_UNROLL
                for (int v = 0; v < WIDTH; ++v) {
                    store(to + (first + row) * STRIDE + v * LANES, sums[row][v]);
                }
            }
        });
    }

    struct Pair {
        Floats weight;    // as dropout leaves it
        Floats gradient;  // of the score, without the scale
    };

    // Of the score, without the scale: what other keys leave of it, and the gradient of the
    // statistic.
    RAGGEDDNN_INLINE Floats gradient_of(Floats weight, Floats change, int v) const {
        return weight * multiply_add(change - delta_[v], has_others_[v], d_lse_[v]);
    }

    // Of one key and its lanes; `IS_PARTIAL`: some pairs may be hidden or dropped.
    template <bool IS_PARTIAL>
    RAGGEDDNN_INLINE Pair differentiate_one(const LaneBounds<WIDTH>& bounds, int64_t key, int v) {
        const int64_t at = key * STRIDE + v * LANES;
        // As the statistics were rounded: where they are one score, its weight is exactly 1.
        const Floats score = load(scratch_.weights + at) * splat(unit_.natural);
        Floats weight = exp2((score - lse_[v]) * splat(LOG2_E));
        Floats change = load(scratch_.gradients + at);
        if constexpr (!IS_PARTIAL) return {weight, gradient_of(weight, change, v)};
        Floats kept = weight;
        if (head_.dropout.is_on) {
            const Floats factor = load(scratch_.factors + at);
            kept = weight * factor;
            change = factor == Floats{} ? Floats{} : change * factor;
        }
        const Floats gradient = gradient_of(weight, change, v);
        // A hidden pair counts for nothing, whatever its products are.
        const Ints sees = bounds.sees(v, key) & (score != splat(-INF));
        return {sees ? kept : Floats{}, sees ? gradient : Floats{}};
    }

    template <bool IS_PARTIAL>
    RAGGEDDNN_INLINE void differentiate_pairs(const BackwardBlock& block) {
        RAGGEDDNN_UNROLL
        for (int v = 0; v < WIDTH; ++v) {
            lse_[v] = load(scratch_.lse + v * LANES);
            delta_[v] = load(scratch_.delta + v * LANES);
            d_lse_[v] = load(scratch_.d_lse + v * LANES);
            has_others_[v] = load(scratch_.has_others + v * LANES);
        }
        const LaneBounds<WIDTH> bounds(head_, panel_.first, block.range.begin);
        const int64_t keys = block.count();
        if constexpr (Unit::ELEMENTS == 2) {
            for (int64_t key = 0; key < keys; key += 2) {
                RAGGEDDNN_UNROLL
                for (int v = 0; v < WIDTH; ++v) {
                    const Pair low = differentiate_one<IS_PARTIAL>(bounds, key, v);
                    Pair high{};
                    if (key + 1 < keys) high = differentiate_one<IS_PARTIAL>(bounds, key + 1, v);
                    put(key, v, low);
                    put(key + 1, v, high);
                    store(scratch_.gradient_pairs + key / 2 * STRIDE + v * LANES,
                          Unit::pair_of(low.gradient, high.gradient));
                }
            }
        } else {
            for (int64_t key = 0; key < keys; ++key) {
                RAGGEDDNN_UNROLL
                for (int v = 0; v < WIDTH; ++v) {
                    put(key, v, differentiate_one<IS_PARTIAL>(bounds, key, v));
                }
            }
        }
    }

    RAGGEDDNN_INLINE void put(int64_t key, int v, const Pair& pair) {
        const int64_t at = key * STRIDE + v * LANES;
        if constexpr (Unit::ELEMENTS == 2) {
            store(scratch_.weight_rows + at, to_bfloat16(pair.weight));
            store(scratch_.gradient_rows + at, to_bfloat16(pair.gradient));
        } else {
            store(scratch_.weights + at, pair.weight);
            store(scratch_.gradients + at, pair.gradient);
        }
    }

    RAGGEDDNN_INLINE Broadcasts key_rows(const float* floats, const uint16_t* halves) const {
        if constexpr (Unit::ELEMENTS == 2) {
            return {reinterpret_cast<const char*>(halves), STRIDE * 2, 4};
        } else {
            return {reinterpret_cast<const char*>(floats), STRIDE * 4, 4};
        }
    }

    RAGGEDDNN_INLINE void add_gradients(const BackwardBlock& block) {
        using Word = typename Unit::Word;
        const int64_t lanes = STRIDE / Unit::ELEMENTS;
        add_rows<Unit>(block.sums.dv, padded(head_.value_width), block.count(),
                       key_rows(scratch_.weights, scratch_.weight_rows),
                       reinterpret_cast<const Word*>(scratch_.d_o_rows), lanes);
        add_rows<Unit>(block.sums.dk, padded(head_.width), block.count(),
                       key_rows(scratch_.gradients, scratch_.gradient_rows),
                       reinterpret_cast<const Word*>(scratch_.q_rows), lanes);
        const Word* by_key = nullptr;
        if constexpr (Unit::ELEMENTS == 2) {
            by_key = scratch_.gradient_pairs;
        } else {
            by_key = scratch_.gradients;
        }
        for_rows(head_.width, [&](auto count, int64_t first) __attribute__((always_inline)) {
            constexpr int COUNT = decltype(count)::value;
            Floats sums[COUNT][WIDTH];
            float* dq = scratch_.dq + first * STRIDE;
            RAGGEDDNN_UNROLL
            for (int row = 0; row < COUNT; ++row) {
                RAGGEDDNN_UNROLL
                for (int v = 0; v < WIDTH; ++v) sums[row][v] = load(dq + row * STRIDE + v * LANES);
            }
            add_product<Unit>(sums, block.key_columns.from_row(first), by_key, STRIDE,
                              words_of<Unit>(block.count()));
            RAGGEDDNN_UNROLL
            for (int row = 0; row < COUNT; ++row) {
                RAGGEDDNN_UNROLL
                for (int v = 0; v < WIDTH; ++v) store(dq + row * STRIDE + v * LANES, sums[row][v]);
            }
        });
    }

    const BackwardHead& head_;
    const ScoreUnit& unit_;
    const PanelRows& panel_;
    const BackwardScratch<Unit>& scratch_;
    Floats lse_[WIDTH];
    Floats delta_[WIDTH];
    Floats d_lse_[WIDTH];
    Floats has_others_[WIDTH];
};

// Row `row` of rows, or of pairs of rows, `stride` words apart becomes 0.
template <class Unit>
RAGGEDDNN_INLINE void clear_row(float* rows, int64_t row, int64_t stride) {
    uint32_t* words = reinterpret_cast<uint32_t*>(rows) + row / Unit::ELEMENTS * stride;
    uint32_t kept = 0;
    if (Unit::ELEMENTS == 2) kept = row % 2 == 0 ? 0xffff0000u : 0x0000ffffu;
    for (int64_t col = 0; col < stride; col += LANES) {
        store(words + col, load(words + col) & kept);
    }
}

// Rows of the panel as they are, for the products that sum over them; those that saw no key as 0,
// since what they hold, NaN included, counts for nothing.
template <class Unit>
RAGGEDDNN_INLINE void copy_rows(const BackwardHead& head, const Rows& rows, const PanelRows& panel,
                                int64_t width, int64_t lanes, float* to) {
    const int64_t stride = padded(width);
    if constexpr (Unit::ELEMENTS == 2) {
        uint32_t* pairs = reinterpret_cast<uint32_t*>(to);
        pair_rows(rows, panel.first, panel.rows, width, pairs);
        const int64_t filled = (panel.rows + 1) / 2;
        memset(pairs + filled * stride, 0,
               static_cast<size_t>((lanes / 2 - filled) * stride) * sizeof(*pairs));
    } else {
        read_rows(head.element, rows, panel.first, panel.rows, width, to, stride);
        memset(to + panel.rows * stride, 0,
               static_cast<size_t>((lanes - panel.rows) * stride) * sizeof(*to));
    }
    const float* stats = static_cast<const float*>(head.stats.data);
    for (int64_t row = 0; row < panel.rows; ++row) {
        if (stats[(panel.first + row) * head.stats.stride] == -INF)
            clear_row<Unit>(to, row, stride);
    }
}

// Visible keys of a row in a range, up to two. A bias may hide some.
RAGGEDDNN_INLINE int64_t count_visible(const Head& head, int64_t row, const Keys& range) {
    if (!head.bias.data) return least(2, range.end - range.begin);
    int64_t visible = 0;
    for (int64_t key = range.begin; key < range.end && visible < 2; ++key) {
        const int64_t at = row * head.bias.row_stride + key * head.bias.key_stride;
        visible += load_one(head.bias.element, head.bias.data, at) != -INF;
    }
    return visible;
}

// Whether a row that sees a key of the range sees another one, there or elsewhere. Elsewhere is
// looked at only where it matters: a bias may hide almost all of a long sequence.
RAGGEDDNN_INLINE bool sees_several(const Head& head, int64_t row, const Keys& range) {
    const Keys seen = keys_of(head, row, 1);
    const Keys inside = {most(range.begin, seen.begin), least(range.end, seen.end)};
    const int64_t visible = inside.begin < inside.end ? count_visible(head, row, inside) : 0;
    return visible != 1 || count_visible(head, row, {seen.begin, inside.begin}) > 0 ||
           count_visible(head, row, {inside.end, seen.end}) > 0;
}

// The terms of each row: its statistic, delta (the sum of o times its gradient) and the gradient of
// the statistic.
template <class Unit>
RAGGEDDNN_INLINE void read_row_terms(const BackwardHead& head, const PanelRows& panel,
                                     const Keys& keys, int64_t lanes,
                                     const BackwardScratch<Unit>& scratch) {
    const int64_t stride = padded(head.value_width);
    read_rows(head.element, head.o, panel.first, panel.rows, head.value_width, scratch.rows,
              stride);
    read_rows(head.element, head.d_o, panel.first, panel.rows, head.value_width, scratch.more_rows,
              stride);
    const auto at = [](const Rows& rows, int64_t row) {
        return static_cast<const float*>(rows.data)[row * rows.stride];
    };
    for (int64_t row = 0; row < lanes; ++row) {
        // Lanes without a row, and rows that saw no key, have no weights.
        scratch.lse[row] = INF;
        scratch.delta[row] = 0.0f;
        scratch.d_lse[row] = 0.0f;
        scratch.has_others[row] = 1.0f;
        if (row >= panel.rows) continue;
        const float lse = at(head.stats, panel.first + row);
        if (lse != -INF) scratch.lse[row] = lse;
        // Its error would reach every key of the row alike, so it is summed in double.
        Doubles sums{};
        for (int64_t col = 0; col < stride; col += LANES) {
            const Floats o = load(scratch.rows + row * stride + col);
            const Floats d_o = load(scratch.more_rows + row * stride + col);
            sums += __builtin_convertvector(o, Doubles) * __builtin_convertvector(d_o, Doubles);
        }
        double delta = 0.0;
        for (int lane = 0; lane < LANES; ++lane) delta += sums[lane];
        scratch.delta[row] = static_cast<float>(delta);
        scratch.has_others[row] = sees_several(head, panel.first + row, keys) ? 1.0f : 0.0f;
        if (head.d_stats.data) scratch.d_lse[row] = at(head.d_stats, panel.first + row);
    }
}

// The head with the gradient of o as products read it: where its elements do not lie side by side,
// the panel's rows are copied.
RAGGEDDNN_INLINE BackwardHead with_plain_d_o(const BackwardHead& head, const PanelRows& panel,
                                             void* copy) {
    BackwardHead plain = head;
    if (head.d_o_step == 1 || head.value_width == 1) return plain;
    const int64_t width = head.value_width;
    for (int64_t row = 0; row < panel.rows; ++row) {
        const int64_t first = (panel.first + row) * head.d_o.stride;
        for (int64_t col = 0; col < width; ++col) {
            memcpy(address(copy, head.element, row * width + col),
                   address(head.d_o.data, head.element, first + col * head.d_o_step),
                   static_cast<size_t>(bytes_of(head.element)));
        }
    }
    // Rows count from the sequence's first one.
    plain.d_o = {address(copy, head.element, -panel.first * width), width};
    return plain;
}

// What a panel's scores at some keys are computed again from.
template <class Unit>
RAGGEDDNN_INLINE void start_lanes(const BackwardHead& head, const ScoreUnit& unit,
                                  const PanelRows& panel, const Keys& keys, int64_t lanes,
                                  const BackwardScratch<Unit>& scratch) {
    turn_rows<Unit>(head.element, head.q, panel.first, panel.rows, head.width, lanes, scratch.q,
                    scratch.rows);
    apply_sign<Unit>(unit, scratch.q, words_of<Unit>(head.width) * lanes);
    turn_rows<Unit>(head.element, head.d_o, panel.first, panel.rows, head.value_width, lanes,
                    scratch.d_o, scratch.rows);
    read_row_terms(head, panel, keys, lanes, scratch);
}

// The keys and values of a block, as scores and their gradients are made from.
template <class Unit>
RAGGEDDNN_INLINE BackwardBlock block_of(const BackwardHead& head, const Keys& range,
                                        const BackwardScratch<Unit>& scratch) {
    BackwardBlock block{};
    block.range = range;
    block.keys = block_rows<Unit>(head.element, head.k, range.begin, block.count(), head.width,
                                  scratch.keys);
    block.values = block_rows<Unit>(head.element, head.v, range.begin, block.count(),
                                    head.value_width, scratch.values);
    return block;
}

// Adds the chunk's part of dq to that of the chunks before, and writes it where none follows.
template <class Unit>
RAGGEDDNN_INLINE void finish_queries(const BackwardHead& head, const PanelRows& panel,
                                     const Keys& seen, const KeyChunk& chunk, int64_t lanes,
                                     const BackwardScratch<Unit>& scratch) {
    const int64_t stride = padded(head.width);
    const bool is_first = seen.begin >= seen.end || seen.begin / CHUNK_KEYS == chunk.index;
    const bool is_last = seen.begin >= seen.end || (seen.end - 1) / CHUNK_KEYS == chunk.index;
    turn(scratch.dq, lanes, head.width, panel.rows, scratch.rows, stride);
    if (!is_first) {
        read_rows(Element::FLOAT32, head.dq_sums, panel.first, panel.rows, head.width,
                  scratch.more_rows, stride);
        for (int64_t i = 0; i < panel.rows * stride; i += LANES) {
            store(scratch.rows + i, load(scratch.rows + i) + load(scratch.more_rows + i));
        }
    }
    if (is_last) {
        write_rows(scratch.rows, stride, head.scale, head.element, head.dq, panel.first, panel.rows,
                   head.width);
    } else {
        write_rows(scratch.rows, stride, 1.0f, Element::FLOAT32, head.dq_sums, panel.first,
                   panel.rows, head.width);
    }
}

template <class Unit>
void backward_rows(const BackwardHead& given, int64_t first, const KeyChunk& chunk,
                   const KeyGradients& sums, void* memory) {
    const PanelRows panel{first, least(MAX_LANES, given.rows - first)};
    const Keys seen = keys_of(given, panel.first, panel.rows);
    const bool is_blind = seen.begin >= seen.end;
    const Keys keys = {most(chunk.begin, seen.begin), least(chunk.end, seen.end)};
    if (is_blind ? chunk.index != 0 : keys.begin >= keys.end) return;

    const BackwardScratch<Unit> scratch(memory, given.width, given.value_width);
    const BackwardHead head = with_plain_d_o(given, panel, scratch.d_o_copy);
    const ScoreUnit unit = ScoreUnit::of(head);
    const int64_t vectors = (panel.rows + LANES - 1) / LANES;
    const int64_t lanes = vectors * LANES;
    memset(scratch.dq, 0, static_cast<size_t>(head.width * lanes) * sizeof(float));
    if (!is_blind) {
        start_lanes(head, unit, panel, keys, lanes, scratch);
        copy_rows<Unit>(head, head.q, panel, head.width, lanes, scratch.q_rows);
        copy_rows<Unit>(head, head.d_o, panel, head.value_width, lanes, scratch.d_o_rows);
    }
    for (int64_t key = keys.begin; key < keys.end; key += BLOCK_KEYS) {
        BackwardBlock block = block_of(head, Keys{key, least(keys.end, key + BLOCK_KEYS)}, scratch);
        block.key_columns = block_columns<Unit>(head.k, key, block.count(), head.width, block.keys,
                                                scratch.key_columns);
        block.sums = {sums.dk + (key - chunk.begin) * padded(head.width),
                      sums.dv + (key - chunk.begin) * padded(head.value_width)};
        with_vectors<VECTORS>(vectors, [&](auto width) __attribute__((always_inline)) {
            constexpr int WIDTH = decltype(width)::value;
            BackwardStep<Unit, WIDTH>(head, unit, panel, scratch).run(block);
        });
    }
    finish_queries(head, panel, seen, chunk, lanes, scratch);
}

void backward_panel(const BackwardHead& head, int64_t first, const KeyChunk& chunk,
                    const KeyGradients& sums, void* scratch) {
    with_unit(head.element,
              [&]<class Unit>(Unit) { backward_rows<Unit>(head, first, chunk, sums, scratch); });
}

int64_t backward_scratch(int32_t width, int32_t value_width) {
    const auto used = [&](Element element) {
        return with_unit(element, [&]<class Unit>(Unit) {
            return BackwardScratch<Unit>(nullptr, width, value_width).used;
        });
    };
    return most(used(Element::FLOAT32), used(Element::BFLOAT16));
}

int64_t gradient_stride(int32_t width) { return padded(width); }

void store_gradients(const float* sums, int64_t stride, float factor, Element element,
                     int32_t width, int64_t count, const Rows& to) {
    write_rows(sums, stride, factor, element, to, 0, count, width);
}

}  // namespace
}  // namespace raggeddnn::cpu
