// The loop that all passes have: blocks of threads take tile after tile. Which batch, head and rows
// a tile is, and which blocks of the other side it looks at, thread 0 finds out for all: registers
// are scarce.
#pragma once

#include "../tile/gpu.hpp"
#include "block_range.hpp"
#include "mask.hpp"
#include "schedule.hpp"

namespace raggeddnn::hip {

struct Work {
    int64_t batch;
    int64_t tile;
    int64_t head;
    bool is_there;
};

// What thread 0 finds out for all. The next tile's numbers come while this one is computed: they
// are three answers of device memory, each of which asks for the next.
template <class Sequence>
struct TileWork {
    Work work;
    Sequence sequence;
    Mask mask;         // columns that a row sees
    BlockRange range;  // of the columns
    struct alignas(16) Ahead {
        Place place;
        Sequence sequence;
        int64_t number;
        int32_t at;  // in the order of work
    } ahead;
    int64_t count;  // of all tiles

    RAGGEDDNN_DEVICE int blocks() const { return static_cast<int>(range.end - range.begin); }
    // Whether each row of the tile sees all of a block, counted from the first one.
    RAGGEDDNN_DEVICE bool is_plain(int block) const {
        return block >= static_cast<int>(range.plain_begin - range.begin) &&
               block < static_cast<int>(range.plain_end - range.begin);
    }
};

// Takes numbers of tiles and brings what they stand for. Of thread 0.
template <class Pass>
class WorkSource {
public:
    RAGGEDDNN_DEVICE WorkSource(const typename Pass::Params& p, const Schedule& schedule,
                                int counter, typename Pass::Shared& shared)
        : p_(p), schedule_(schedule), counter_(counter), at_(shared.at) {
        if (thread_index() != 0) return;
        at_.count = *schedule.tiles * Pass::heads(p);
        taken_ = static_cast<int64_t>(take_number(schedule.next_work + counter_));
        find_place();
        find_record();
    }
    // The work that was found, for all threads once they meet at a barrier.
    RAGGEDDNN_DEVICE void take() {
        if (thread_index() != 0) return;
        const int64_t number = at_.ahead.number;
        at_.work.is_there = number < at_.count;
        if (!at_.work.is_there) return;
        const auto& p = renewed(p_);
        taken_ = static_cast<int64_t>(take_number(renewed(schedule_).next_work + counter_));
        fetched();
        const Place& place = at_.ahead.place;
        const int64_t within = number - place.first_tile * Pass::heads(p);
        at_.work.batch = place.batch;
        at_.work.head = within / place.tiles;
        at_.work.tile = within % place.tiles;
        if (Pass::IS_LAST_FIRST) at_.work.tile = place.tiles - 1 - at_.work.tile;
        at_.sequence = at_.ahead.sequence;
        at_.mask = Pass::mask(p, at_.sequence);
        const int64_t row = at_.work.tile * Pass::TILE_ROWS;
        const int64_t left = Pass::valid_rows(at_.sequence) - row;
        at_.range = block_range(at_.mask, row, left < Pass::TILE_ROWS ? left : Pass::TILE_ROWS,
                                Pass::BLOCK_ROWS);
    }
    // Ask for the next tile's: first once the tile is under way, then when its sums are done.
    RAGGEDDNN_DEVICE void find_place() {
        if (thread_index() != 0) return;
        at_.ahead.number = taken_;
        if (taken_ >= at_.count) return;
        fetch_4(&at_.ahead.at, schedule_.place_of_tile + taken_ / Pass::heads(p_));
    }
    RAGGEDDNN_DEVICE void find_record() {
        if (thread_index() != 0 || at_.ahead.number >= at_.count) return;
        using Sequence = typename Pass::Sequence;
        fetched();
        const int32_t at = at_.ahead.at;
        fetch<Place>(&at_.ahead.place, schedule_.places + at);
        fetch<Sequence>(&at_.ahead.sequence,
                        static_cast<const Sequence*>(schedule_.sequences) + at);
    }

private:
    const typename Pass::Params& p_;
    const Schedule& schedule_;
    const int counter_;
    TileWork<typename Pass::Sequence>& at_;
    int64_t taken_ = 0;  // a tile ahead, too: until find_place()
};

// `Pass`: what make_schedule() asks; heads(params), of the work; mask(params, sequence) and
// valid_rows(sequence), of its rows; BLOCK_ROWS, of the other side; IS_LAST_FIRST; and an object of
// a tile that does compute(source), which calls source.find_place() once, and write(). `counter`:
// of the schedule's, no other pass's.
template <class Pass>
RAGGEDDNN_INLINE void run_tiles(const typename Pass::Params& p, const Schedule& schedule,
                                int counter, typename Pass::Shared& shared) {
    WorkSource<Pass> source(p, schedule, counter, shared);
    while (true) {
        source.take();
        block_barrier();
        if (!shared.at.work.is_there) return;
        Pass tile(renewed(p), shared);
        tile.compute(source);
        source.find_record();
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
