// The loop that all passes have: blocks of threads take tile after tile.
#pragma once

#include "work_source.hpp"

namespace raggeddnn::hip {

template <bool, class Pass>
struct SourceOf {
    using Type = WorkSource<Pass>;
};
template <class Pass>
struct SourceOf<true, Pass> {
    using Type = EarlySource<Pass>;
};

// `Pass`: what make_schedule() asks; heads(params), of the work; find_heads(params, work);
// mask(params, sequence) and valid_rows(sequence), of its rows; BLOCK_ROWS, of the other side;
// IS_LAST_FIRST; and an object of a tile that does compute(source), which calls
// source.find_next<PENDING>() once, and write(). One that BEGINS_EARLY calls source.look_ahead()
// instead and has TileRows; find_query_rows(params, sequence, work, rows) and find_key_rows(params,
// sequence, work, first_column, rows), which make them; and begin(params, tile, shared), which
// begins the loads of a tile's first blocks; for all tiles but the first, compute() calls it. Its
// write() has a barrier, after which it reads nothing of shared.at. `counter`: of the schedule's,
// no other pass's.
template <class Pass>
RAGGEDDNN_INLINE void run_tiles(const typename Pass::Params& p, const Schedule& schedule,
                                int counter, typename Pass::Shared& shared) {
    typename SourceOf<BEGINS_EARLY<Pass>, Pass>::Type source(p, schedule, counter, shared.at);
    if constexpr (BEGINS_EARLY<Pass>) Pass::begin(p, shared.at.next, shared);
    while (true) {
        source.take();
        block_barrier();
        if (!shared.at.work.is_there) return;
        Pass tile(renewed(p), shared);
        tile.compute(source);
        source.finish_tile();
        tile.write();
        if constexpr (!BEGINS_EARLY<Pass>) block_barrier();
    }
}

// Puts `value` where a row does not see a column: those from `right`, or `end`, on and, with
// HAS_LEFT, those before `left`. `left` and `right`: of the lane's part's row 0, one further for
// each row.
template <bool HAS_LEFT, class Tile, int COUNT>
RAGGEDDNN_DEVICE void hide(typename Tile::Accumulator (&tiles)[COUNT], int left, int right, int end,
                           int lane, float value) {
    int first[Tile::STATS];
    int past[Tile::STATS];
#pragma unroll
    for (int s = 0; s < Tile::STATS; ++s) {
        const int row = Tile::row_of_stat(lane, s);
        // Less the lane's part of a column, so that what is left of it is known when compiling.
        first[s] = left + row - Tile::column_of(lane, 0);
        past[s] = (right + row < end ? right + row : end) - Tile::column_of(lane, 0);
    }
#pragma unroll
    for (int t = 0; t < COUNT; ++t) {
#pragma unroll
        for (int i = 0; i < Tile::VALUES; ++i) {
            const int column = 16 * t + Tile::column_of(0, i);
            const int s = Tile::stat_of(i);
            if (column >= past[s] || (HAS_LEFT && column < first[s])) tiles[t].x[i] = value;
        }
    }
}

// The same of all a wave has of a block, where the block needs it: the scores of `Pass`, whose
// wave's rows begin at `wave_row` of its tile.
template <class Pass, class Found, int COUNT>
RAGGEDDNN_DEVICE void hide_unseen(const Found& tile, int block, int wave_row, int lane, float value,
                                  typename Pass::Accumulator (&tiles)[Pass::PARTS][COUNT]) {
    using Tile = typename Pass::Tile;
    const bool is_cut_left = block < tile.plain_begin;
    if (!is_cut_left && block < tile.plain_end) return;
    const int64_t first_column = int64_t{block} * Pass::BLOCK_ROWS;
    const auto near = [first_column](int64_t edge) {  // so that no sum of it with a row overflows
        constexpr int64_t FAR = 1 << 20;
        const int64_t at = edge - first_column;
        return static_cast<int>(at < -FAR ? -FAR : at > FAR ? FAR : at);
    };
    const int left = near(tile.edges.left) + wave_row;
    const int right = near(tile.edges.right) + wave_row;
    const int end = near(tile.edges.end);
#pragma unroll
    for (int part = 0; part < Pass::PARTS; ++part) {
        const int row = 16 * part;
        if (is_cut_left) {
            hide<true, Tile>(tiles[part], left + row, right + row, end, lane, value);
        } else {
            hide<false, Tile>(tiles[part], 0, right + row, end, lane, value);
        }
    }
}

}  // namespace raggeddnn::hip
