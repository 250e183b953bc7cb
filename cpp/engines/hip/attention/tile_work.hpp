// The loop that all passes have: blocks of threads take tile after tile. Which batch, head and rows
// a tile is, and which blocks of the other side it looks at, thread 0 finds out for all: registers
// are scarce.
#pragma once

#include "../tile/gpu.hpp"
#include "block_range.hpp"
#include "mask.hpp"
#include "pass_work.hpp"
#include "schedule.hpp"

namespace raggeddnn::hip {

// What a tile is, and what it looks at.
template <class Sequence_>
struct alignas(16) FoundTile {
    Work work;
    Sequence_ sequence;
    Mask mask;             // columns that a row sees
    int64_t first_column;  // of block 0
    int32_t blocks;
    int32_t plain_begin;  // blocks that every row of the tile sees all of
    int32_t plain_end;

    RAGGEDDNN_DEVICE bool is_plain(int block) const {
        return block >= plain_begin && block < plain_end;
    }
};

// What thread 0 finds out for all. The numbers of the tile after the next come while this one is
// computed: they are three answers of device memory, each of which asks for the next.
template <class Sequence>
struct TileWork : FoundTile<Sequence> {
    FoundTile<Sequence> next;
    struct alignas(16) Ahead {
        Place place;
        Sequence sequence;
        int64_t number;
    } ahead;
    int64_t count;  // of all tiles
    bool is_asked;  // for the tile after the next
};

// Takes numbers of tiles and brings what they stand for.
template <class Pass>
class WorkSource {
public:
    RAGGEDDNN_DEVICE WorkSource(const typename Pass::Params& p, const Schedule& schedule,
                                int counter, typename Pass::Shared& shared)
        : p_(p), schedule_(schedule), counter_(counter), at_(shared.at) {
        if (thread_index() != 0) return;
        at_.count = *schedule.tiles * Pass::heads(p);
        at_.blocks = 0;
        ask();
        fetches_begun();
        find_next<0>();
    }
    // The next tile is this one, for all threads once they meet at a barrier.
    RAGGEDDNN_DEVICE void take() {
        constexpr int PIECES = sizeof(at_.next) / 16;
        const int piece = renewed_thread_index();
        if (piece < PIECES) {
            const int at = 16 * piece;
            auto* to = reinterpret_cast<unsigned char*>(static_cast<Found*>(&at_)) + at;
            const auto* from = reinterpret_cast<const unsigned char*>(&at_.next) + at;
            __builtin_memcpy(__builtin_assume_aligned(to, 16), __builtin_assume_aligned(from, 16),
                             16);
        }
        fetches_begun();
    }
    // Finds the next tile, while loads of this one are on their way: `PENDING` groups of them.
    template <int PENDING>
    RAGGEDDNN_DEVICE void find_next() {
        if (thread_index() != 0) return;
        fetched<PENDING>();
        Found& next = at_.next;
        const int64_t number = at_.ahead.number;
        next.work.is_there = number < at_.count;
        if (!next.work.is_there) return;
        const auto& p = renewed(p_);
        const Place& place = at_.ahead.place;
        const int64_t within = number - place.first_tile * Pass::heads(p);
        next.work.batch = place.batch;
        next.work.head = within / place.tiles;
        next.work.tile = within % place.tiles;
        if (Pass::IS_LAST_FIRST) next.work.tile = place.tiles - 1 - next.work.tile;
        Pass::find_heads(p, next.work);
        next.sequence = at_.ahead.sequence;
        next.mask = Pass::mask(p, next.sequence);
        const int64_t row = next.work.tile * Pass::TILE_ROWS;
        const int64_t left = Pass::valid_rows(next.sequence) - row;
        const BlockRange range = block_range(
            next.mask, row, left < Pass::TILE_ROWS ? left : Pass::TILE_ROWS, Pass::BLOCK_ROWS);
        next.first_column = range.begin * Pass::BLOCK_ROWS;
        next.blocks = static_cast<int32_t>(range.end - range.begin);
        next.plain_begin = static_cast<int32_t>(range.plain_begin - range.begin);
        next.plain_end = static_cast<int32_t>(range.plain_end - range.begin);
        at_.is_asked = at_.blocks < MANY_BLOCKS;
        if (at_.is_asked) ask();
    }
    // The tile is computed.
    RAGGEDDNN_DEVICE void finish_tile() {
        if (thread_index() == 0 && at_.next.work.is_there && !at_.is_asked) ask();
    }

private:
    using Sequence = typename Pass::Sequence;
    using Found = FoundTile<Sequence>;
    // Of a tile that takes so long that it asks for the one after the next when it is done: what
    // one block of threads has asked for, no other one takes, which at the end all wait for.
    static constexpr int MANY_BLOCKS = 8;

    // For the tile after the next.
    RAGGEDDNN_DEVICE void ask() {
        const Schedule& schedule = renewed(schedule_);
        const auto number = static_cast<int64_t>(take_number(schedule.next_work + counter_));
        at_.ahead.number = number;
        if (number >= at_.count) return;
        const int32_t at = schedule.place_of_tile[number / Pass::heads(renewed(p_))];
        fetch<Place>(&at_.ahead.place, schedule.places + at);
        fetch<Sequence>(&at_.ahead.sequence, static_cast<const Sequence*>(schedule.sequences) + at);
    }

    const typename Pass::Params& p_;
    const Schedule& schedule_;
    const int counter_;
    TileWork<Sequence>& at_;
};

// `Pass`: what make_schedule() asks; heads(params), of the work; find_heads(params, work);
// mask(params, sequence) and valid_rows(sequence), of its rows; BLOCK_ROWS, of the other side;
// IS_LAST_FIRST; and an object of a tile that does compute(source), which calls
// source.find_next<PENDING>() once, and write(). `counter`: of the schedule's, no other pass's.
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
        source.finish_tile();
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

// The same of all a wave has of a block, where the block needs it: the scores of `Pass`, whose
// wave's rows begin at `wave_row` of its tile.
template <class Pass, int COUNT>
RAGGEDDNN_DEVICE void hide_unseen(const TileWork<typename Pass::Sequence>& at, int block,
                                  int wave_row, int lane, float value,
                                  typename Pass::Accumulator (&tiles)[Pass::PARTS][COUNT]) {
    if (at.is_plain(block)) return;
    const int64_t first_column = at.first_column + int64_t{block} * Pass::BLOCK_ROWS;
    const int64_t row = at.work.tile * Pass::TILE_ROWS + wave_row;
#pragma unroll
    for (int part = 0; part < Pass::PARTS; ++part) {
        hide<typename Pass::Tile>(tiles[part], at.mask, row + 16 * part, first_column, lane, value);
    }
}

}  // namespace raggeddnn::hip
