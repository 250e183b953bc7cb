// The loop that all passes have: blocks of threads take tile after tile. Which batch, head and rows
// a tile is, and which blocks of the other side it looks at, thread 0 finds out for all: registers
// are scarce.
#pragma once

#include "../tile/gpu.hpp"
#include "block_range.hpp"
#include "mask.hpp"
#include "schedule.hpp"

namespace raggeddnn::hip {

template <class Sequence>
struct TileWork {
    Work work;
    Sequence sequence;
    Mask mask;         // columns that a row sees
    BlockRange range;  // of the columns

    RAGGEDDNN_DEVICE int blocks() const { return static_cast<int>(range.end - range.begin); }
    // Whether each row of the tile sees all of a block, counted from the first one.
    RAGGEDDNN_DEVICE bool is_plain(int block) const {
        return block >= static_cast<int>(range.plain_begin - range.begin) &&
               block < static_cast<int>(range.plain_end - range.begin);
    }
};

// `Pass`: what make_schedule() asks; heads(params), of the work; mask(params, sequence) and
// valid_rows(sequence), of its rows; BLOCK_ROWS, of the other side; IS_LAST_FIRST; and an object of
// a tile that does compute() and write().
template <class Pass>
RAGGEDDNN_INLINE void run_tiles(const typename Pass::Params& p, const Schedule& schedule,
                                typename Pass::Shared& shared) {
    // Numbers are taken a tile ahead: an atomic's answer takes a while.
    unsigned long long next = 0;
    if (thread_index() == 0) next = take_number(schedule.next_work);
    while (true) {
        const auto& own = renewed(p);
        if (thread_index() == 0) {
            auto& at = shared.at;
            const Schedule& order = renewed(schedule);
            at.work = work_of(order, Pass::heads(own), static_cast<int64_t>(next),
                              Pass::IS_LAST_FIRST, at.sequence);
            if (at.work.is_there) {
                next = take_number(order.next_work);
                at.mask = Pass::mask(own, at.sequence);
                const int64_t row = at.work.tile * Pass::TILE_ROWS;
                const int64_t left = Pass::valid_rows(at.sequence) - row;
                at.range =
                    block_range(at.mask, row, left < Pass::TILE_ROWS ? left : Pass::TILE_ROWS,
                                Pass::BLOCK_ROWS);
            }
        }
        block_barrier();
        if (!shared.at.work.is_there) return;
        Pass tile(own, shared);
        tile.compute();
        tile.write();
        block_barrier();
    }
}

// Puts `value` where a row does not see the column. `first_row`, of the lane's part by its
// `first_column`: of the COUNT tiles side by side.
template <class Tile, int COUNT>
RAGGEDDNN_DEVICE void hide(typename Tile::Accumulator (&tiles)[COUNT], const Mask& mask,
                           int64_t first_row, int64_t first_column, int lane, float value) {
    int low[Tile::STATS];
    int high[Tile::STATS];
#pragma unroll
    for (int s = 0; s < Tile::STATS; ++s) {
        const auto within = [first_column](int64_t column) {
            const int64_t at = column - first_column;
            return static_cast<int>(at < 0 ? 0 : at > 16 * COUNT ? 16 * COUNT : at);
        };
        const int64_t row = first_row + Tile::row_of_stat(lane, s);
        // Less the lane's part of a column, so that what is left of it is known when compiling.
        low[s] = within(mask.first_key(row)) - Tile::column_of(lane, 0);
        high[s] = within(mask.end_key(row)) - Tile::column_of(lane, 0);
    }
#pragma unroll
    for (int t = 0; t < COUNT; ++t) {
#pragma unroll
        for (int i = 0; i < Tile::VALUES; ++i) {
            const int column = 16 * t + Tile::column_of(0, i);
            const int s = Tile::stat_of(i);
            if (column < low[s] || column >= high[s]) tiles[t].x[i] = value;
        }
    }
}

}  // namespace raggeddnn::hip
