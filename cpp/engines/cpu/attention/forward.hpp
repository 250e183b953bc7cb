// The forward pass over some rows of one head: an online softmax over blocks of keys, with rows in
// lanes (Dao 2022, "FlashAttention", algorithm 1; Milakov and Gimelshein 2018).
#pragma once

#include "panel.hpp"

namespace raggeddnn::cpu {
namespace {

// A block of keys is turned into what products read once for so many panels.
constexpr int64_t FORWARD_PANELS = 4;

template <class Unit>
struct ForwardPanel {
    int64_t first = 0;  // row
    int64_t rows = 0;
    int64_t vectors = 0;
    typename Unit::Word* q;  // [words of width][lanes]
    float* o;                // [value width][lanes]
    float* peak;             // [lanes]: the largest score so far
    float* sum;              // of weights relative to it

    RAGGEDDNN_INLINE int64_t lanes() const { return vectors * LANES; }
};

template <class Unit>
struct ForwardScratch {
    ForwardPanel<Unit> panels[FORWARD_PANELS];
    float* scores;    // [BLOCK_KEYS][lanes]
    uint32_t* pairs;  // of weights, where units are pairs
    float* factors;   // bias, then dropout
    float* keys;      // of a block, where they are not read in place
    float* values;
    float* rows;  // [MAX_LANES][widest], or of a bias [MAX_LANES][BLOCK_KEYS]
    int64_t used;

    RAGGEDDNN_INLINE ForwardScratch(void* memory, int64_t width, int64_t value_width) {
        ScratchCutter cutter(memory);
        const int64_t widest = padded(most(BLOCK_KEYS, most(width, value_width)));
        for (ForwardPanel<Unit>& panel : panels) {
            panel.q = cutter.take<typename Unit::Word>(words_of<Unit>(width) * MAX_LANES);
            panel.o = cutter.take<float>(value_width * MAX_LANES);
            panel.peak = cutter.take<float>(MAX_LANES);
            panel.sum = cutter.take<float>(MAX_LANES);
        }
        scores = cutter.take<float>(BLOCK_KEYS * MAX_LANES);
        pairs = cutter.take<uint32_t>(Unit::ELEMENTS == 2 ? BLOCK_KEYS / 2 * MAX_LANES : 0);
        factors = cutter.take<float>(BLOCK_KEYS * MAX_LANES);
        keys = cutter.take<float>(BLOCK_KEYS * padded(width));
        values = cutter.take<float>(BLOCK_KEYS * padded(value_width));
        rows = cutter.take<float>(MAX_LANES * widest);
        used = cutter.used();
    }
};

struct ForwardBlock {
    Keys range;
    Broadcasts keys;
    Broadcasts values;

    RAGGEDDNN_INLINE int64_t count() const { return range.end - range.begin; }
};

template <class Unit, int WIDTH>
class ForwardStep {
public:
    RAGGEDDNN_INLINE ForwardStep(const ForwardHead& head, const ScoreUnit& unit,
                                 const ForwardPanel<Unit>& panel,
                                 const ForwardScratch<Unit>& scratch, const ForwardBlock& block)
        : head_(head), unit_(unit), panel_(panel), scratch_(scratch), block_(block) {}

    RAGGEDDNN_INLINE void run() {
        RAGGEDDNN_UNROLL
        for (int v = 0; v < WIDTH; ++v) peak_[v] = load(panel_.peak + v * LANES);
        multiply_keys();
        const bool is_masked = !sees_all(head_, panel_.first, panel_.rows, block_.range);
        if (head_.bias.data || is_masked) revise(is_masked);
        const float* factors = nullptr;
        if (head_.dropout.is_on) {
            read_dropout(head_.dropout, panel_.first, block_.range.begin, block_.count(), STRIDE,
                         scratch_.factors);
            factors = scratch_.factors;
        }
        weigh(factors);
        add_values();
    }

private:
    static constexpr int64_t STRIDE = WIDTH * LANES;

    RAGGEDDNN_INLINE float* scores(int64_t key, int v) const {
        return scratch_.scores + key * STRIDE + v * LANES;
    }

    RAGGEDDNN_INLINE void multiply_keys() {
        const int64_t steps = words_of<Unit>(head_.width);
        for_rows(block_.count(), [&](auto count, int64_t first) __attribute__((always_inline)) {
            constexpr int COUNT = decltype(count)::value;
            Floats sums[COUNT][WIDTH] = {};
            add_long_product<Unit>(sums, block_.keys.from_row(first), panel_.q, STRIDE, steps);
            RAGGEDDNN_UNROLL
            for (int row = 0; row < COUNT; ++row) {
                RAGGEDDNN_UNROLL
                for (int v = 0; v < WIDTH; ++v) {
                    store(scores(first + row, v), sums[row][v]);
                    peak_[v] = larger(peak_[v], sums[row][v]);
                }
            }
        });
    }

    // Bias and mask, and the maximum over what they leave.
    RAGGEDDNN_INLINE void revise(bool is_masked) {
        const int64_t keys = block_.count();
        if (head_.bias.data) {
            read_bias(head_.bias, {panel_.first, panel_.rows}, block_.range, STRIDE, scratch_.rows,
                      scratch_.factors);
            add_bias(scratch_.scores, scratch_.factors, unit_.scale, keys * STRIDE);
        }
        const LaneBounds<WIDTH> bounds(head_, panel_.first, block_.range.begin);
        RAGGEDDNN_UNROLL
        for (int v = 0; v < WIDTH; ++v) peak_[v] = load(panel_.peak + v * LANES);
        for (int64_t key = 0; key < keys; ++key) {
            RAGGEDDNN_UNROLL
            for (int v = 0; v < WIDTH; ++v) {
                Floats score = load(scores(key, v));
                if (is_masked) score = bounds.sees(v, key) ? score : splat(-INF);
                store(scores(key, v), score);
                peak_[v] = larger(peak_[v], score);
            }
        }
    }

    // Scores become weights relative to the new maximum; what was summed before moves to it.
    RAGGEDDNN_INLINE void weigh(const float* factors) {
        Floats base[WIDTH];
        Floats added[WIDTH];
        const Floats exponent = splat(unit_.exponent);
        RAGGEDDNN_UNROLL
        for (int v = 0; v < WIDTH; ++v) {
            base[v] = peak_[v] == splat(-INF) ? Floats{} : peak_[v];
            rescale_[v] = exp2((load(panel_.peak + v * LANES) - base[v]) * exponent);
            added[v] = Floats{};
            store(panel_.peak + v * LANES, peak_[v]);
        }
        const auto weight = [&](int64_t key, int v) __attribute__((always_inline)) {
            const Floats w = exp2((load(scores(key, v)) - base[v]) * exponent);
            added[v] += w;
            return factors ? w * load(factors + key * STRIDE + v * LANES) : w;
        };
        const int64_t keys = block_.count();
        if constexpr (Unit::ELEMENTS == 2) {
            int64_t key = 0;
            for (; key + 2 <= keys; key += 2) {
                RAGGEDDNN_UNROLL
                for (int v = 0; v < WIDTH; ++v) {
                    const Floats low = weight(key, v);
                    store(scratch_.pairs + key / 2 * STRIDE + v * LANES,
                          Unit::pair_of(low, weight(key + 1, v)));
                }
            }
            for (int v = 0; key < keys && v < WIDTH; ++v) {
                store(scratch_.pairs + key / 2 * STRIDE + v * LANES,
                      Unit::pair_of(weight(key, v), Floats{}));
            }
        } else {
            for (int64_t key = 0; key < keys; ++key) {
                RAGGEDDNN_UNROLL
                for (int v = 0; v < WIDTH; ++v) store(scores(key, v), weight(key, v));
            }
        }
        RAGGEDDNN_UNROLL
        for (int v = 0; v < WIDTH; ++v) {
            float* sum = panel_.sum + v * LANES;
            store(sum, multiply_add(load(sum), rescale_[v], added[v]));
        }
    }

    RAGGEDDNN_INLINE const typename Unit::Word* weights() const {
        if constexpr (Unit::ELEMENTS == 2) {
            return scratch_.pairs;
        } else {
            return scratch_.scores;
        }
    }

    RAGGEDDNN_INLINE void add_values() {
        const int64_t steps = words_of<Unit>(block_.count());
        for_rows(head_.value_width, [&](auto count, int64_t first) __attribute__((always_inline)) {
            constexpr int COUNT = decltype(count)::value;
            // A block by itself first: errors grow with the blocks, not with the keys.
            Floats sums[COUNT][WIDTH] = {};
            add_product<Unit>(sums, block_.values.from_row(first), weights(), STRIDE, steps);
            float* o = panel_.o + first * STRIDE;
            RAGGEDDNN_UNROLL
            for (int row = 0; row < COUNT; ++row) {
                RAGGEDDNN_UNROLL
                for (int v = 0; v < WIDTH; ++v) {
                    float* at = o + row * STRIDE + v * LANES;
                    store(at, multiply_add(load(at), rescale_[v], sums[row][v]));
                }
            }
        });
    }

    const ForwardHead& head_;
    const ScoreUnit& unit_;
    const ForwardPanel<Unit>& panel_;
    const ForwardScratch<Unit>& scratch_;
    const ForwardBlock& block_;
    Floats peak_[WIDTH];
    Floats rescale_[WIDTH];
};

template <class Unit>
RAGGEDDNN_INLINE void start_panel(const ForwardHead& head, const ScoreUnit& unit, float* spare,
                                  ForwardPanel<Unit>& panel) {
    const int64_t lanes = panel.lanes();
    turn_rows<Unit>(head.element, head.q, panel.first, panel.rows, head.width, lanes, panel.q,
                    spare);
    apply_sign<Unit>(unit, panel.q, words_of<Unit>(head.width) * lanes);
    memset(panel.o, 0, static_cast<size_t>(head.value_width * lanes) * sizeof(float));
    for (int64_t lane = 0; lane < lanes; lane += LANES) {
        store(panel.peak + lane, splat(-INF));
        store(panel.sum + lane, Floats{});
    }
}

// Divides by the sums; rows that saw no key are 0 and -inf.
template <class Unit>
RAGGEDDNN_INLINE void finish_panel(const ForwardHead& head, const ScoreUnit& unit, float* spare,
                                   ForwardPanel<Unit>& panel) {
    const int64_t lanes = panel.lanes();
    for (int64_t lane = 0; lane < lanes; lane += LANES) {
        const Floats sum = load(panel.sum + lane);
        const Floats part = splat(1.0f) / sum;
        for (int64_t col = 0; col < head.value_width; ++col) {
            float* o = panel.o + col * lanes + lane;
            store(o, sum == Floats{} ? Floats{} : load(o) * part);
        }
    }
    const int64_t stride = padded(head.value_width);
    turn(panel.o, lanes, head.value_width, panel.rows, spare, stride);
    write_rows(spare, stride, 1.0f, head.element, head.o, panel.first, panel.rows,
               head.value_width);
    if (!head.stats.data) return;
    for (int64_t row = 0; row < panel.rows; ++row) {
        const double peak = panel.peak[row];
        const double sum = panel.sum[row];
        static_cast<float*>(head.stats.data)[(panel.first + row) * head.stats.stride] =
            sum == 0.0 ? -INF : static_cast<float>(peak * unit.natural + log(sum));
    }
}

template <class Unit>
void forward_rows(const ForwardHead& head, int64_t first, int64_t count, void* memory) {
    ForwardScratch<Unit> scratch(memory, head.width, head.value_width);
    const ScoreUnit unit = ScoreUnit::of(head);
    int64_t panels = 0;
    for (int64_t row = 0; row < count; row += MAX_LANES, ++panels) {
        ForwardPanel<Unit>& panel = scratch.panels[panels];
        panel.first = first + row;
        panel.rows = least(MAX_LANES, count - row);
        panel.vectors = (panel.rows + LANES - 1) / LANES;
        start_panel(head, unit, scratch.rows, panel);
    }
    const Keys all = keys_of(head, first, count);
    for (int64_t key = all.begin; key < all.end; key += BLOCK_KEYS) {
        ForwardBlock block;
        block.range = {key, least(all.end, key + BLOCK_KEYS)};
        block.keys =
            block_rows<Unit>(head.element, head.k, key, block.count(), head.width, scratch.keys);
        Broadcasts values{};
        if constexpr (Unit::ELEMENTS == 1) {
            values = block_rows<Unit>(head.element, head.v, key, block.count(), head.value_width,
                                      scratch.values);
        }
        block.values = block_columns<Unit>(head.v, key, block.count(), head.value_width, values,
                                           scratch.values);
        for (int64_t i = 0; i < panels; ++i) {
            const ForwardPanel<Unit>& panel = scratch.panels[i];
            const Keys seen = keys_of(head, panel.first, panel.rows);
            if (seen.begin >= block.range.end || seen.end <= key) continue;
            ForwardBlock part = block;
            part.range.end = least(block.range.end, seen.end);
            with_vectors<VECTORS>(panel.vectors, [&](auto vectors) __attribute__((always_inline)) {
                constexpr int WIDTH = decltype(vectors)::value;
                ForwardStep<Unit, WIDTH>(head, unit, panel, scratch, part).run();
            });
        }
    }
    for (int64_t i = 0; i < panels; ++i) finish_panel(head, unit, scratch.rows, scratch.panels[i]);
}

void forward(const ForwardHead& head, int64_t first, int64_t count, void* scratch) {
    with_unit(head.element,
              [&]<class Unit>(Unit) { forward_rows<Unit>(head, first, count, scratch); });
}

int64_t forward_scratch(int32_t width, int32_t value_width) {
    const auto used = [&](Element element) {
        return with_unit(element, [&]<class Unit>(Unit) {
            return ForwardScratch<Unit>(nullptr, width, value_width).used;
        });
    };
    return most(used(Element::FLOAT32), used(Element::BFLOAT16));
}

}  // namespace
}  // namespace raggeddnn::cpu
