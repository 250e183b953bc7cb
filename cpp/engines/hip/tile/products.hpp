// Products of whole blocks, out of a tile's products of 16 by 16: results are there at once. Where
// the hardware multiplies blocks by itself its tile has products of its own.
#pragma once

#include "../attention/device.hpp"

namespace raggeddnn::hip {

template <class Accumulator, int PARTS, int TILES>
RAGGEDDNN_DEVICE void clear(Accumulator (&sums)[PARTS][TILES]) {
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
#pragma unroll
        for (int t = 0; t < TILES; ++t) sums[part][t] = Accumulator{};
    }
}

// Results of one product as the next one takes them.
template <class Tile, int PARTS, int COUNT>
RAGGEDDNN_DEVICE void make_operands(const typename Tile::Accumulator (&tiles)[PARTS][COUNT],
                                    int lane, typename Tile::WeightOperand (&made)[PARTS][COUNT]) {
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
#pragma unroll
        for (int t = 0; t < COUNT; ++t) made[part][t] = Tile::weights(tiles[part][t], lane);
    }
}

// Rows times the rows of another block, both in shared memory: scores of queries and keys.
// `Rows`, `Columns`: their blocks, of one width. A wave has WAVE_ROWS rows.
// Loads of MOST_STEPS steps of the width are under way at once.
template <class Tile, class Rows, class Columns, int WAVE_ROWS, int MOST_STEPS>
class TiledRowProduct {
public:
    using Accumulator = typename Tile::Accumulator;
    static constexpr bool IS_IMMEDIATE = true;
    static constexpr bool KEEPS_ROWS = Tile::KEEPS_ROWS;
    static constexpr int PARTS = WAVE_ROWS / 16;
    static constexpr int TILES = Columns::ROWS / 16;
    static constexpr int STEPS = Rows::WIDTH / Tile::STEP;
    static constexpr int STEPS_AT_ONCE = MOST_STEPS < STEPS ? MOST_STEPS : STEPS;

    // The rows are in `memory`, and stay there where the tile does not keep them in registers.
    RAGGEDDNN_DEVICE TiledRowProduct(const uint16_t* memory, int wave_row, int lane)
        : memory_(memory), wave_row_(wave_row), lane_(lane) {
        if constexpr (Tile::KEEPS_ROWS) {
#pragma unroll
            for (int part = 0; part < PARTS; ++part) {
#pragma unroll
                for (int step = 0; step < STEPS; ++step) kept_[part][step] = load(part, step);
            }
        }
    }

    // sum = rows columns^T
    RAGGEDDNN_DEVICE void begin(const uint16_t* columns, Accumulator (&sum)[PARTS][TILES]) const {
        clear(sum);
#pragma unroll STEPS_AT_ONCE
        for (int step = 0; step < STEPS; ++step) {
            typename Tile::RowOperand rows[PARTS];
#pragma unroll
            for (int part = 0; part < PARTS; ++part) {
                if constexpr (Tile::KEEPS_ROWS) {
                    rows[part] = kept_[part][step];
                } else {
                    rows[part] = load(part, step);
                }
            }
#pragma unroll
            for (int t = 0; t < TILES; ++t) {
                const auto other =
                    Tile::template load_column<Columns>(columns, 16 * t, step, lane_);
#pragma unroll
                for (int part = 0; part < PARTS; ++part) {
                    Tile::multiply_row(rows[part], other, sum[part][t]);
                }
            }
        }
    }
    // The sum is there; `PENDING` products begun after it need not be.
    template <int PENDING>
    RAGGEDDNN_DEVICE void finish(Accumulator (&)[PARTS][TILES]) const {}
    // What was computed from the sum is computed here, and not after a later wait.
    RAGGEDDNN_DEVICE static void settle(Accumulator (&)[PARTS][TILES]) {}

private:
    RAGGEDDNN_DEVICE typename Tile::RowOperand load(int part, int step) const {
        return Tile::template load_row<Rows>(memory_, wave_row_ + 16 * part, step, lane_);
    }

    const uint16_t* memory_;
    int wave_row_;
    int lane_;
    typename Tile::RowOperand kept_[PARTS][Tile::KEEPS_ROWS ? STEPS : 1];
};

// Weights in registers times values in shared memory.
template <class Tile, class Values, int WAVE_ROWS>
class TiledWeightProduct {
public:
    using Accumulator = typename Tile::Accumulator;
    static constexpr int PARTS = WAVE_ROWS / 16;
    static constexpr int TILES = Values::ROWS / 16;
    static constexpr int COLUMN_TILES = Values::WIDTH / 16;

    // sum += weights values
    RAGGEDDNN_DEVICE static void begin(const typename Tile::WeightOperand (&weights)[PARTS][TILES],
                                       const uint16_t* values, int lane,
                                       Accumulator (&sum)[PARTS][COLUMN_TILES]) {
#pragma unroll
        for (int t = 0; t < TILES; ++t) {
#pragma unroll
            for (int c = 0; c < COLUMN_TILES; ++c) {
                const auto value = Tile::template load_value<Values>(values, 16 * t, 16 * c, lane);
#pragma unroll
                for (int part = 0; part < PARTS; ++part) {
                    Tile::multiply_weight(weights[part][t], value, sum[part][c]);
                }
            }
        }
    }
    template <int PENDING>
    RAGGEDDNN_DEVICE static void finish(Accumulator (&)[PARTS][COLUMN_TILES]) {}
};

// What architectures have in common.
struct TiledArch {
    static constexpr int SHARED_ALIGNMENT = 16;
    static constexpr int DIES = 1;                    // parts of a GPU with caches of their own
    static constexpr bool WAITS_FOR_KERNELS = false;  // by itself, of those launched before
    static constexpr int blocks_at_once(int, int, int) { return 1; }  // or more
    template <class Tile, class Rows, class Columns, int WAVE_ROWS, int MOST_STEPS = 16>
    using RowProduct = TiledRowProduct<Tile, Rows, Columns, WAVE_ROWS, MOST_STEPS>;
    template <class Tile, class Values, int WAVE_ROWS>
    using WeightProduct = TiledWeightProduct<Tile, Values, WAVE_ROWS>;
};

}  // namespace raggeddnn::hip
