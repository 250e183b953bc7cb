// What both passes of the backward do with a tile: P again from the log-sum-exp, dS from it, and
// where a tile's rows and the blocks of the other side lie in shared memory.
#pragma once

#include "../tile/arch.hpp"
#include "operand_rows.hpp"
#include "pass_work.hpp"
#include "row_terms.hpp"
#include "tile_work.hpp"

namespace raggeddnn::hip {

// Elements. TILES: tiles of rows beside each other. Where they are kept in registers their memory
// is used again.
template <class Tile, class TileStage, int TILES, int BLOCK_ELEMENTS>
struct TileMemory {
    static constexpr int TILE_ELEMENTS = TileStage::SHARED_ELEMENTS;
    static constexpr int SECOND_AT = Tile::KEEPS_ROWS ? 0 : TILE_ELEMENTS;  // tile
    static constexpr int BLOCKS_AT = Tile::KEEPS_ROWS ? 0 : TILES * TILE_ELEMENTS;
    static constexpr int ELEMENTS = Tile::KEEPS_ROWS && TILE_ELEMENTS > BLOCK_ELEMENTS
                                        ? TILE_ELEMENTS
                                        : BLOCKS_AT + BLOCK_ELEMENTS;
};

// Scores become the weights of the forward pass. `log_sum(t, i)`: of value i of tile t.
template <class Tile, int COUNT, class LogSum>
RAGGEDDNN_DEVICE void weigh_again(typename Tile::Accumulator (&tiles)[COUNT], float factor,
                                  const LogSum& log_sum) {
#pragma unroll
    for (int t = 0; t < COUNT; ++t) {
#pragma unroll
        for (int i = 0; i < Tile::VALUES; ++i) {
            float& x = tiles[t].x[i];
            x = exp2_fast(x * factor - log_sum(t, i));
        }
    }
}

// dP becomes dS = P (dP - delta).
template <class Tile, int COUNT, class Delta>
RAGGEDDNN_DEVICE void differentiate(const typename Tile::Accumulator (&weights)[COUNT],
                                    typename Tile::Accumulator (&tiles)[COUNT],
                                    const Delta& delta) {
#pragma unroll
    for (int t = 0; t < COUNT; ++t) {
#pragma unroll
        for (int i = 0; i < Tile::VALUES; ++i) {
            float& x = tiles[t].x[i];
            x = weights[t].x[i] * (x - delta(t, i));
        }
    }
}

}  // namespace raggeddnn::hip
