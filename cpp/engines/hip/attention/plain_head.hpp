// One head of one sequence without matrix instructions: what a product of a query and a key becomes
// by scale, bias, mask and dropout.
#pragma once

#include "../tile/arch.hpp"
#include "mask.hpp"
#include "params.hpp"
#include "plain_tile.hpp"
#include "raggeddnn/plugin/philox.hpp"
#include "sequence.hpp"
#include "softmax.hpp"
#include "tile_work.hpp"

namespace raggeddnn::hip {

inline constexpr float HIDDEN = -__builtin_inff();  // the score of a key that does not count

// exp(x) for x from -inf to little above 0. The rest of x * log2(e) after rounding counts where
// scores are large: in float it would be the larger part of the error.
RAGGEDDNN_DEVICE inline float exp_of(float x) {
    constexpr float LOG2_E_REST = 1.92596299e-8f;  // log2(e) less LOG2_E
    const float whole = x * LOG2_E;
    const float power = exp2_fast(whole);
    if (power == 0) return 0;
    const float rest = __builtin_fmaf(x, LOG2_E_REST, __builtin_fmaf(x, LOG2_E, -whole));
    return __builtin_fmaf(power, rest * LN_2, power);
}

RAGGEDDNN_DEVICE inline int64_t read_random(const RandomNumber& number) {
    return number.memory.data ? read_index(number.memory, 0) : number.value;
}

// plugin::Dropout as shared memory may hold it.
struct PlainDropout {
    uint32_t key_low;
    uint32_t key_high;
    uint32_t threshold;
    float keep_scale;
};

RAGGEDDNN_DEVICE inline PlainDropout read_dropout(const DropoutParams& dropout) {
    if (dropout.probability == 0) return {};
    const auto made = plugin::Dropout::make(dropout.probability, read_random(dropout.seed),
                                            read_random(dropout.offset));
    return {made.key_low, made.key_high, made.threshold, static_cast<float>(made.keep_scale)};
}

// Not inlined: many draws at once would take the registers that sums are in.
RAGGEDDNN_COLD inline bool keeps(const PlainDropout& dropout, int64_t batch, int64_t head,
                                 int64_t row, int64_t key) {
    return plugin::Dropout{dropout.key_low, dropout.key_high, dropout.threshold}.keeps(batch, head,
                                                                                       row, key);
}

// A tile's rows are rows of the sequence and its columns keys; where IS_TURNED they are exchanged.
template <class Element, bool IS_TURNED>
struct PlainHead {
    const AttentionParams& p;
    const PlainDropout& dropout;
    const Mask& mask;    // columns that a row of the tile sees
    int64_t valid_rows;  // of the tile's side
    int64_t batch;
    int64_t head;

    // Products of queries and keys become scores.
    RAGGEDDNN_DEVICE void score(PlainSum& tile, int64_t first_row, int64_t first_column) const {
        int first[PLAIN_EACH];  // columns of the tile that a row sees
        int end[PLAIN_EACH];
#pragma unroll
        for (int i = 0; i < PLAIN_EACH; ++i) {
            const int64_t row = first_row + plain_row(i);
            first[i] = within_tile(mask.first_key(row) - first_column);
            end[i] = row < valid_rows ? within_tile(mask.end_key(row) - first_column) : 0;
#pragma unroll
            for (int j = 0; j < PLAIN_EACH; ++j) tile.x[i][j] *= p.scale;
        }
        if (p.bias.data) add_bias(tile, first_row, first_column, first, end);
#pragma unroll
        for (int i = 0; i < PLAIN_EACH; ++i) {
#pragma unroll
            for (int j = 0; j < PLAIN_EACH; ++j) {
                const int column = plain_column(j);
                if (column < first[i] || column >= end[i]) tile.x[i][j] = HIDDEN;
            }
        }
    }

    // What weighs values, or a gradient of it: what is kept is scaled, what is not is 0.
    RAGGEDDNN_DEVICE void drop(PlainSum& tile, int64_t first_row, int64_t first_column) const {
        if (p.dropout.probability == 0) return;
#pragma unroll
        for (int i = 0; i < PLAIN_EACH; ++i) {
#pragma unroll
            for (int j = 0; j < PLAIN_EACH; ++j) {
                const int64_t row = first_row + plain_row(i);
                const int64_t column = first_column + plain_column(j);
                const bool is_kept = IS_TURNED ? keeps(dropout, batch, head, column, row)
                                               : keeps(dropout, batch, head, row, column);
                tile.x[i][j] = is_kept ? tile.x[i][j] * dropout.keep_scale : 0;
            }
        }
    }

    RAGGEDDNN_DEVICE int64_t key_head() const { return head / p.group_k; }
    RAGGEDDNN_DEVICE int64_t value_head() const { return head / p.group_v; }

private:
    RAGGEDDNN_DEVICE static int within_tile(int64_t column) {
        return static_cast<int>(column < 0 ? 0 : column > PLAIN_SIZE ? PLAIN_SIZE : column);
    }

    RAGGEDDNN_DEVICE void add_bias(PlainSum& tile, int64_t first_row, int64_t first_column,
                                   const int (&first)[PLAIN_EACH],
                                   const int (&end)[PLAIN_EACH]) const {
        const BiasTensor& b = p.bias;
        const int64_t down = IS_TURNED ? b.key_stride : b.row_stride;
        const int64_t across = IS_TURNED ? b.row_stride : b.key_stride;
        const int64_t base = batch * b.batch_stride + head * b.head_stride;
#pragma unroll
        for (int i = 0; i < PLAIN_EACH; ++i) {
            const int64_t at_row = base + (first_row + plain_row(i)) * down;
#pragma unroll
            for (int j = 0; j < PLAIN_EACH; ++j) {
                const int column = plain_column(j);
                if (column < first[i] || column >= end[i]) continue;
                const float bias = bias_at(at_row + (first_column + column) * across);
                float& x = tile.x[i][j];
                x = bias == HIDDEN ? HIDDEN : x + bias;
            }
        }
    }

    RAGGEDDNN_DEVICE float bias_at(int64_t at) const {
        if (p.bias.is_float) return static_cast<const float*>(p.bias.data)[at];
        return Element::to_float(static_cast<const typename Element::Stored*>(p.bias.data)[at]);
    }
};

// Of passes over tiles of rows.
template <class Sequence>
struct PlainShared {
    PlainMemory memory;
    PlainDropout dropout;
    TileWork<Sequence> at;
};

template <class Pass>
RAGGEDDNN_INLINE void run_plain_tiles(const typename Pass::Params& p, const Schedule& schedule,
                                      typename Pass::Shared& shared) {
    if (thread_index() == 0) shared.dropout = read_dropout(p.dropout);
    run_tiles<Pass>(p, schedule, 0, shared);
}

}  // namespace raggeddnn::hip
