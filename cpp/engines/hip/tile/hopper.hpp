// The matrix units of compute capability 9.0: four warps multiply 64 rows at a time, taking keys
// and values straight from shared memory (wgmma). A lane's part of the sums is what mma.sync gives
// it, 16 rows a warp, so all but the products and the layout in shared memory is the NVIDIA tile's.
#pragma once

#include "hopper_ptx.hpp"
#include "nvidia.hpp"

namespace raggeddnn::hip {

template <class Element>
struct HopperTile : NvidiaTile<Element> {
    static constexpr int GROUP_ROWS = 64;  // of four warps

    // Panels of 64 columns, each with all rows; within one a chunk's place depends on its row, as
    // the hardware's 128-byte swizzle wants it.
    template <class Block>
    RAGGEDDNN_DEVICE static int place(int row, int chunk) {
        return (chunk >> 3) * 64 * Block::ROWS + row * 64 + 8 * ((chunk & 7) ^ (row & 7));
    }
    template <class Block>
    RAGGEDDNN_DEVICE static constexpr int pitch() {
        return 64;
    }
    template <class Block>
    RAGGEDDNN_DEVICE static constexpr int panel_pitch() {
        return 64 * Block::ROWS;
    }
    RAGGEDDNN_DEVICE static void show_to_products() { fence_async_proxy(); }

    // place() so many rows on, where none of that number's last three bits is one of the row's.
    RAGGEDDNN_DEVICE static int moved_rows(int place, int rows) {
        return (place ^ 8 * (rows & 7)) + 64 * rows;
    }

    // Sums of a tile times the factors of their rows, rounded, to its place. A lane brings its sums
    // and knows where a row of one of the four quarters goes. The wave writes what it has kept once
    // its lanes meet.
    static constexpr bool KEEPS_TILES = true;
    RAGGEDDNN_DEVICE static void meet() { meet_wave(); }
    template <class Block>
    RAGGEDDNN_DEVICE static void keep_tile(uint16_t* memory, int first_row, int column_tile,
                                           int lane, const float (&sum)[8],
                                           const float (&factor)[2]) {
        // place() of chunk 2 * column_tile + half: all that depends on the lane is the same for
        // every tile of the row.
        const int row = first_row + (lane & 15);
        const int own = row * 64 + 8 * ((lane >> 4) ^ (row & 7));
        const int at = column_tile / 4 * 64 * Block::ROWS + (own ^ 16 * (column_tile % 4));
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float by = factor[i & 1];
            words[i] = pack<Element>(sum[2 * i] * by, sum[2 * i + 1] * by);
        }
        stmatrix_x4(memory, at, words);
    }
};

// The largest products that make up COUNT tiles of 16 columns.
template <int COUNT>
inline constexpr int WGMMA_TILES = COUNT % 8 == 0 ? 8 : 4;

// As TiledRowProduct; the sum is there when finish() returns.
template <class Tile, class Rows, class Columns, int WAVE_ROWS>
class HopperRowProduct {
public:
    using Element = typename Tile::Element;
    using Accumulator = typename Tile::Accumulator;
    static constexpr bool IS_IMMEDIATE = false;
    static constexpr bool KEEPS_ROWS = false;
    static constexpr int PARTS = WAVE_ROWS / 16;
    static constexpr int TILES = Columns::ROWS / 16;
    static constexpr int STEPS = Rows::WIDTH / 16;
    static constexpr int GROUP = WGMMA_TILES<TILES>;
    static_assert(PARTS == 1 && Rows::WIDTH % 64 == 0 && TILES % GROUP == 0);

    RAGGEDDNN_DEVICE HopperRowProduct(const uint16_t* memory, int wave_row, int)
        : rows_(matrix_descriptor(memory, 16)) {
        if (Rows::ROWS > Tile::GROUP_ROWS) {
            rows_ = moved(rows_, wave_row / Tile::GROUP_ROWS * Tile::GROUP_ROWS * 64);
        }
    }

    RAGGEDDNN_DEVICE void begin(const uint16_t* columns, Accumulator (&sum)[PARTS][TILES]) const {
        const MatrixDescriptor all = matrix_descriptor(columns, 16);
        warpgroup_fence();
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
#pragma unroll
            for (int t = 0; t < TILES; t += GROUP) {
                Wgmma<Element, GROUP>::shared(&sum[0][t], moved(rows_, at(step, Rows::ROWS)),
                                              moved(all, at(step, Columns::ROWS) + 16 * t * 64),
                                              step == 0 ? 0 : 1);
            }
        }
        warpgroup_commit();
    }
    template <int PENDING>
    RAGGEDDNN_DEVICE void finish(Accumulator (&sum)[PARTS][TILES]) const {
        warpgroup_wait<PENDING>();
        settle(sum);
    }
    RAGGEDDNN_DEVICE static void settle(Accumulator (&sum)[PARTS][TILES]) {
#pragma unroll
        for (int t = 0; t < TILES; t += GROUP) Wgmma<Element, GROUP>::hold(&sum[0][t]);
    }

private:
    // Of 16 columns; within a panel the swizzle is in the hardware.
    RAGGEDDNN_DEVICE static int at(int step, int rows) {
        return step / 4 * 64 * rows + step % 4 * 16;
    }

    MatrixDescriptor rows_;
};

// As TiledWeightProduct.
template <class Tile, class Values, int WAVE_ROWS>
class HopperWeightProduct {
public:
    using Element = typename Tile::Element;
    using Accumulator = typename Tile::Accumulator;
    static constexpr int PARTS = WAVE_ROWS / 16;
    static constexpr int TILES = Values::ROWS / 16;
    static constexpr int COLUMN_TILES = Values::WIDTH / 16;
    static constexpr int GROUP = WGMMA_TILES<COLUMN_TILES>;
    static_assert(PARTS == 1 && Values::WIDTH % 64 == 0);

    RAGGEDDNN_DEVICE static void begin(const typename Tile::WeightOperand (&weights)[PARTS][TILES],
                                       const uint16_t* values, int,
                                       Accumulator (&sum)[PARTS][COLUMN_TILES]) {
        const MatrixDescriptor all = matrix_descriptor(values, Values::ROWS * 128);
        warpgroup_fence();
#pragma unroll
        for (int t = 0; t < TILES; ++t) {
#pragma unroll
            for (int c = 0; c < COLUMN_TILES; c += GROUP) {
                Wgmma<Element, GROUP>::registers(
                    &sum[0][c], weights[0][t].r,
                    moved(all, c / 4 * 64 * Values::ROWS + 16 * t * 64));
            }
        }
        warpgroup_commit();
    }
    template <int PENDING>
    RAGGEDDNN_DEVICE static void finish(Accumulator (&sum)[PARTS][COLUMN_TILES]) {
        warpgroup_wait<PENDING>();
#pragma unroll
        for (int c = 0; c < COLUMN_TILES; c += GROUP) Wgmma<Element, GROUP>::hold(&sum[0][c]);
    }
};

}  // namespace raggeddnn::hip
