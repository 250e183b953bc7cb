// Where blocks of threads get their tiles from. Which batch, head and rows a tile is, and which
// blocks of the other side it looks at, single threads find out for all: registers are scarce. The
// numbers of the tile after the next come while this one is computed: they are three answers of
// device memory, each of which asks for the next.
#pragma once

#include "../tile/gpu.hpp"
#include "block_range.hpp"
#include "mask.hpp"
#include "pass_work.hpp"
#include "quotient.hpp"
#include "schedule.hpp"

namespace raggeddnn::hip {

// What a tile is, and what it looks at. `Rows`: where those of its tensors are, or NoRows, where
// every thread finds that out.
struct NoRows {};
template <bool, class Rows>
struct RowsIf {
    using Type = NoRows;
};
template <class Rows>
struct RowsIf<true, Rows> {
    using Type = Rows;
};
template <class Sequence_, class Rows = NoRows>
struct alignas(16) FoundTile {
    Work work;
    Sequence_ sequence;
    Mask mask;             // columns that a row sees
    int64_t first_column;  // of block 0
    MaskEdges edges;       // of the tile's first row, from there on
    int32_t blocks;
    int32_t plain_begin;  // of BlockRange
    int32_t plain_end;
    Rows rows;
};

// What the schedule says of a tile not yet found.
template <class Sequence>
struct alignas(16) AskedTile {
    Place place;
    Sequence sequence;
    int64_t number;
};

// This tile and those to come. `ASKED`: after the next.
template <class Sequence, int ASKED = 1, class Rows = NoRows>
struct TileWork : FoundTile<Sequence, Rows> {
    FoundTile<Sequence, Rows> next;
    AskedTile<Sequence> ahead[ASKED];
    int64_t count;           // of all tiles
    uint32_t heads_inverse;  // inverse_of() them
    int8_t turn;             // of those ahead, which comes next
    bool is_asked;           // for the tile after the next
};

// What one block of threads has asked for, no other one takes, which at the end all wait for. Where
// tiles take as long as so many blocks of the other side, the one after the next is therefore asked
// for late, and only where they take no longer than so few, the number of one more early.
inline constexpr int MANY_BLOCKS = 8;
inline constexpr int FEW_BLOCKS = 4;

// Passes of EarlySource.
template <class Pass>
inline constexpr bool BEGINS_EARLY = requires { requires Pass::BEGINS_EARLY; };

// What sources share. `counter`: of the schedule's, no other pass's.
template <class Pass, class Rows = NoRows>
class TileFinder {
public:
    using Sequence = typename Pass::Sequence;
    using Found = FoundTile<Sequence, Rows>;
    using Asked = AskedTile<Sequence>;

    RAGGEDDNN_DEVICE TileFinder(const typename Pass::Params& p, const Schedule& schedule,
                                int counter)
        : p_(p), schedule_(schedule), counter_(counter) {}

protected:
    RAGGEDDNN_DEVICE int64_t count_tiles() const { return *schedule_.tiles * Pass::heads(p_); }
    RAGGEDDNN_DEVICE uint32_t heads() const {
        return static_cast<uint32_t>(Pass::heads(renewed(p_)));
    }
    // Numbers are dealt out to dies, so that tiles of one head are computed on one of them; one
    // that has no more takes another's.
    RAGGEDDNN_DEVICE int64_t take(int64_t count) const {
        unsigned long long* const next = renewed(schedule_).next_work + counter_ * MOST_DIES;
        constexpr int DIES = Pass::Arch::DIES;
        if constexpr (DIES == 1) return static_cast<int64_t>(take_number(next));
        const int own = die_index();
        int64_t number = count;
        for (int i = 0; i < DIES && number >= count; ++i) {
            const int die = (own + i) % DIES;
            number = static_cast<int64_t>(take_number(next + die)) * DIES + die;
        }
        return number;
    }
    RAGGEDDNN_DEVICE int32_t place_of(int64_t number) const {
        return place_of_tile(number / Pass::heads(renewed(p_)));
    }
    // `tile`: of those of one head of every batch.
    RAGGEDDNN_DEVICE int32_t place_of_tile(int64_t tile) const {
        return renewed(schedule_).place_of_tile[tile];
    }
    // `place`: where the tile is one of those that there are.
    template <class Place_>
    RAGGEDDNN_DEVICE void ask(Asked& asked, int64_t number, int64_t count, Place_ place) const {
        const Schedule& schedule = renewed(schedule_);
        asked.number = number;
        if (number >= count) return;
        const int32_t at = place();
        fetch<Place>(&asked.place, schedule.places + at);
        fetch<Sequence>(&asked.sequence, static_cast<const Sequence*>(schedule.sequences) + at);
    }
    // What is found, in parts; of no tile, nothing but that.
    RAGGEDDNN_DEVICE void find(Found& found, const Asked& asked, int64_t count) const {
        if (asked.number >= count) {
            find_none(found);
            return;
        }
        found.work = work_of(asked);
        find_range(found, asked, found.work);
        found.sequence = asked.sequence;
        find_query_rows(found, asked, found.work);
        find_key_rows(found, asked, found.work);
    }
    RAGGEDDNN_DEVICE static void find_none(Found& found) {
        found.work.is_there = false;
        found.blocks = 0;
    }
    RAGGEDDNN_DEVICE Work work_of(const Asked& asked) const {
        const Turn turn = turn_of(asked);
        Work work{asked.place.batch, turn.tile, turn.head, 0, 0, true};
        Pass::find_heads(renewed(p_), work);
        return work;
    }
    RAGGEDDNN_DEVICE void find_range(Found& found, const Asked& asked, const Work& work) const {
        found.mask = Pass::mask(renewed(p_), asked.sequence);
        const int64_t row = int64_t{work.tile} * Pass::TILE_ROWS;
        const int64_t left = Pass::valid_rows(asked.sequence) - row;
        const BlockRange range = block_range(
            found.mask, row, left < Pass::TILE_ROWS ? left : Pass::TILE_ROWS, Pass::BLOCK_ROWS);
        found.first_column = range.begin * Pass::BLOCK_ROWS;
        found.edges = found.mask.edges(row, found.first_column);
        found.blocks = static_cast<int32_t>(range.end - range.begin);
        found.plain_begin = static_cast<int32_t>(range.plain_begin - range.begin);
        found.plain_end = static_cast<int32_t>(range.plain_end - range.begin);
    }
    RAGGEDDNN_DEVICE void find_query_rows(Found& found, const Asked& asked,
                                          const Work& work) const {
        if constexpr (BEGINS_EARLY<Pass>) {
            Pass::find_query_rows(renewed(p_), asked.sequence, work, found.rows);
        }
    }
    // Without find_range(), which another thread may be at.
    RAGGEDDNN_DEVICE void find_key_rows(Found& found, const Asked& asked, const Work& work) const {
        if constexpr (BEGINS_EARLY<Pass>) {
            const typename Pass::Params& p = renewed(p_);
            const Mask mask = Pass::mask(p, asked.sequence);
            const int64_t key = mask.first_key(int64_t{work.tile} * Pass::TILE_ROWS);
            Pass::find_key_rows(p, asked.sequence, work, key / Pass::BLOCK_ROWS * Pass::BLOCK_ROWS,
                                found.rows);
        }
    }
    // By as many threads as it has pieces, of which this is number `piece`.
    RAGGEDDNN_DEVICE static void find_sequence(Found& found, const Asked& asked, int piece) {
        copy_piece(&found.sequence, &asked.sequence, piece);
    }

    // The next tile is this one, for all threads once they meet at a barrier.
    template <class At>
    RAGGEDDNN_DEVICE static void take_next(At& at) {
        copy_piece<Found>(&at, &at.next, renewed_thread_index());
    }

private:
    struct Turn {
        int32_t head;
        int32_t tile;
    };
    RAGGEDDNN_DEVICE Turn turn_of(const Asked& asked) const {
        const Place& place = asked.place;
        const auto all_heads = this->heads();
        // Fewer than 2^32 in a batch, whose output would else be larger than any memory.
        const auto within = static_cast<uint32_t>(asked.number - place.first_tile * all_heads);
        const auto tiles = static_cast<uint32_t>(place.tiles);
        const auto together = static_cast<uint32_t>(place.heads_together);
        if constexpr (BEGINS_EARLY<Pass>) {  // all wait for it, a hundred cycles for each division
            if (together == 1) {
                const uint32_t head = tiles == 1 ? within : within / tiles;
                return {static_cast<int32_t>(head), tile_of(place, within - head * tiles)};
            }
        }
        const uint32_t first_head = within / (tiles * together) * together;
        const uint32_t left_heads = all_heads - first_head;
        const uint32_t heads = together < left_heads ? together : left_heads;
        const uint32_t turn = within - first_head * tiles;
        return {static_cast<int32_t>(first_head + turn % heads), tile_of(place, turn / heads)};
    }
    RAGGEDDNN_DEVICE static int32_t tile_of(const Place& place, uint32_t turn) {
        const auto tile = static_cast<int32_t>(turn);
        return Pass::IS_LAST_FIRST ? place.tiles - 1 - tile : tile;
    }
    // 16 bytes of a record.
    template <class Record>
    RAGGEDDNN_DEVICE static void copy_piece(Record* to, const Record* from, int piece) {
        if (piece >= static_cast<int>(sizeof(Record) / 16)) return;
        auto* to_piece = reinterpret_cast<unsigned char*>(to) + 16 * piece;
        const auto* from_piece = reinterpret_cast<const unsigned char*>(from) + 16 * piece;
        __builtin_memcpy(__builtin_assume_aligned(to_piece, 16),
                         __builtin_assume_aligned(from_piece, 16), 16);
    }

    const typename Pass::Params& p_;
    const Schedule& schedule_;
    const int counter_;
};

// Thread 0 does it all, while the loads of a tile are on their way.
template <class Pass>
class WorkSource : TileFinder<Pass> {
public:
    using At = TileWork<typename Pass::Sequence>;

    RAGGEDDNN_DEVICE WorkSource(const typename Pass::Params& p, const Schedule& schedule,
                                int counter, At& at)
        : TileFinder<Pass>(p, schedule, counter), at_(at) {
        if (thread_index() == 0) {
            at_.count = this->count_tiles();
            ask();
            fetches_begun();
            fetched<0>();
            this->find(at_.next, at_.ahead[0], at_.count);
            if (at_.next.work.is_there) ask();
        }
        block_barrier();
    }
    RAGGEDDNN_DEVICE void take() {
        this->take_next(at_);
        fetches_begun();
    }
    // While loads of this tile are on their way: `PENDING` groups of them.
    template <int PENDING>
    RAGGEDDNN_DEVICE void find_next() {
        if (thread_index() != 0) return;
        fetched<PENDING>();
        this->find(at_.next, at_.ahead[0], at_.count);
        if (!at_.next.work.is_there) return;
        at_.is_asked = Pass::length(at_.sequence) < MANY_BLOCKS * Pass::BLOCK_ROWS;
        if (at_.is_asked) ask();
    }
    // The tile is computed.
    RAGGEDDNN_DEVICE void finish_tile() {
        if (thread_index() == 0 && at_.next.work.is_there && !at_.is_asked) ask();
    }

private:
    RAGGEDDNN_DEVICE void ask() {
        const int64_t number = TileFinder<Pass>::take(at_.count);
        TileFinder<Pass>::ask(at_.ahead[0], number, at_.count,
                              [&] { return this->place_of(number); });
    }

    At& at_;
};

// For passes that begin the loads of the next tile before this one is done: four waves share it,
// while a product is computed.
template <class Pass>
class EarlySource : TileFinder<Pass, typename Pass::TileRows> {
    using Finder = TileFinder<Pass, typename Pass::TileRows>;

public:
    using At = TileWork<typename Pass::Sequence, 2, typename Pass::TileRows>;

    RAGGEDDNN_DEVICE EarlySource(const typename Pass::Params& p, const Schedule& schedule,
                                 int counter, At& at)
        : Finder(p, schedule, counter), at_(at) {
        if (thread_index() == ASKER) {
            at_.count = this->count_tiles();
            at_.turn = 0;
            at_.heads_inverse = inverse_of(this->heads());
            ask_for(take_one(), 0);
            fetches_begun();
            // Not at once: the tiles that take longest are other blocks' first ones.
            number_ = take_one();
            fetched<0>();
        }
        block_barrier();
        if (thread_index() == 0) this->find(at_.next, at_.ahead[0], at_.count);
        if (thread_index() == ASKER) ask_for(number_, 1);
        block_barrier();
    }
    RAGGEDDNN_DEVICE void take() {
        this->take_next(at_);
        if (thread_index() == 0) at_.turn = static_cast<int8_t>(1 - at_.turn);
        // Answered by the time of look_ahead().
        if (thread_index() == ASKER && has_number_ && number_ < at_.count) {
            place_ = place_of(number_);
        }
    }
    // What was asked for when the tile before this one was computed has to be there. The next tile
    // is known to all, and what is asked for is part of their next group of loads, once they meet
    // at a barrier.
    RAGGEDDNN_DEVICE void look_ahead() {
        const int turn = at_.turn;
        const AskedTile<typename Pass::Sequence>& asked = at_.ahead[turn];
        const int wave = thread_index() / WAVE;
        const int lane = thread_index() % WAVE;
        if (wave == 3) this->find_sequence(at_.next, asked, lane);
        if (lane != 0) return;
        if (wave == ASKER / WAVE) {
            look_further(1 - turn);
        } else if (asked.number >= at_.count) {
            if (wave == 0) this->find_none(at_.next);
        } else {
            const Work work = this->work_of(asked);
            if (wave == 0) {
                at_.next.work = work;
                this->find_query_rows(at_.next, asked, work);
            } else if (wave == 2) {
                this->find_range(at_.next, asked, work);
            } else {
                this->find_key_rows(at_.next, asked, work);
            }
        }
    }
    RAGGEDDNN_DEVICE void finish_tile() {}

private:
    static constexpr int WAVE = Pass::Tile::WAVE;
    static constexpr int ASKER = WAVE;
    static_assert(Pass::THREADS == 4 * WAVE);

    RAGGEDDNN_DEVICE void look_further(int ahead) {
        if (has_number_) {
            this->ask(at_.ahead[ahead], number_, at_.count, [this] { return place_; });
        } else {
            ask_for(take_one(), ahead);
        }
        has_number_ = Pass::length(at_.sequence) <= FEW_BLOCKS * Pass::BLOCK_ROWS;
        if (has_number_) number_ = take_one();  // on its way until the next tile
    }
    RAGGEDDNN_DEVICE int64_t take_one() const { return Finder::take(at_.count); }
    RAGGEDDNN_DEVICE void ask_for(int64_t number, int ahead) {
        this->ask(at_.ahead[ahead], number, at_.count, [&] { return place_of(number); });
    }
    // All wait for the asker when it asks this.
    RAGGEDDNN_DEVICE int32_t place_of(int64_t number) const {
        const auto low = static_cast<uint32_t>(number);
        return number == low ? this->place_of_tile(quotient(low, this->heads(), at_.heads_inverse))
                             : Finder::place_of(number);
    }

    At& at_;
    // The asker's, of the tile to ask for. Nothing but answers of device memory is ever put there:
    // they stay on their way as long as no other value has to take their place.
    int64_t number_;
    int32_t place_;
    bool has_number_ = false;
};

}  // namespace raggeddnn::hip
