// From lengths to work: which tile of which batch and head comes next. The schedule kernel reads
// all offsets and lengths once and orders the batches, longest first, so that the last tiles to be
// taken are short ones; blocks then take numbers. The tiles of one head or a few follow each other:
// they share keys, for the cache.
#pragma once

#include "device.hpp"
#include "params.hpp"
#include "sequence.hpp"

namespace raggeddnn::hip {

inline constexpr int SCHEDULE_THREADS = 256;
inline constexpr int SCHEDULE_BUCKETS = 128;

// Buckets of lengths, two for each power of two, the longest first.
RAGGEDDNN_DEVICE inline int bucket_of(int64_t length) {
    if (length < 2) return SCHEDULE_BUCKETS - 1;
    const int log = 63 - __builtin_clzll(static_cast<unsigned long long>(length));
    const int half = static_cast<int>((length >> (log - 1)) & 1);
    return SCHEDULE_BUCKETS - 1 - (2 * log + half);
}

// How many heads' tiles take turns, the longest of all first. Where all tiles of a head take the
// same time there is no need to; else as many as fit in the cache with what their tiles read again.
template <class Pass>
RAGGEDDNN_DEVICE int32_t heads_together(const typename Pass::Params& p,
                                        const typename Pass::Sequence& s) {
    constexpr float CACHE_BYTES = 32 << 20;
    constexpr int DIES = Pass::Arch::DIES;
    const auto heads = static_cast<int32_t>(Pass::heads(p));
    int32_t together = 1;
    if ((p.band.left < Band::OPEN) != (p.band.right < Band::OPEN)) {
        const auto length = static_cast<float>(Pass::length(s));
        const auto row_bytes = static_cast<float>(sizeof(typename Pass::Element::Stored)) *
                               static_cast<float>(p.width + p.value_width);
        const float fitting = CACHE_BYTES / (length * row_bytes * Pass::shares_of_head(p));
        together = fitting < 1                           ? 1
                   : fitting < static_cast<float>(heads) ? static_cast<int32_t>(fitting)
                                                         : heads;
    }
    // So that a head's tiles are the same die's.
    together = (together + DIES - 1) / DIES * DIES;
    return together < heads ? together : heads;
}

// Each has a place for what it becomes next.
struct ScheduleShared {
    int32_t counts[2][SCHEDULE_BUCKETS];  // of batches
    int64_t tiles[2][SCHEDULE_THREADS];   // of the places of each thread
};

// Each of values[0] becomes the sum of those up to it, where the result is.
template <class T, int COUNT>
RAGGEDDNN_DEVICE T (&sum_up(T (&values)[2][COUNT])) [COUNT] {
    static_assert(COUNT <= SCHEDULE_THREADS);
    const int i = thread_index();
    int now = 0;
    for (int step = 1; step < COUNT; step *= 4) {  // values are sums of so many
        block_barrier();
        if (i < COUNT) {
            T sum = values[now][i];
            for (int part = 1; part < 4; ++part) {
                if (i >= part * step) sum += values[now][i - part * step];
            }
            values[1 - now][i] = sum;
        }
        now = 1 - now;
    }
    block_barrier();
    return values[now];
}

// Every thread brings the first fault of its own batches. Once all have been here, behind a
// barrier, the thread whose fault is the first of all writes it.
RAGGEDDNN_DEVICE inline void claim_first(FaultRecord* record, const Fault& own) {
    if (own.batch != Fault::NO_BATCH) lower(&record->first.batch, own.batch);
}
RAGGEDDNN_DEVICE inline void write_first(FaultRecord* record, const Fault& own) {
    // Read by an atomic, too: atomics pass by caches that a plain read may find stale.
    if (own.batch != Fault::NO_BATCH && lower(&record->first.batch, own.batch) == own.batch) {
        record->first = own;
    }
}

// The tiles of one head of a batch, in the order of work.
RAGGEDDNN_DEVICE inline void number_tiles(const Schedule& schedule, int64_t at,
                                          const Place& place) {
    schedule.places[at] = place;
    for (int32_t tile = 0; tile < place.tiles; ++tile) {
        schedule.place_of_tile[place.first_tile + tile] = static_cast<int32_t>(at);
    }
}

// The tiles of all places, of which each thread has one, wherever it is. How many tiles that is.
RAGGEDDNN_DEVICE inline int64_t number_own(const Schedule& schedule, int64_t batches, int64_t at,
                                           Place place, ScheduleShared& shared) {
    const int thread = thread_index();
    if (thread < batches) {
        shared.tiles[0][at] = place.tiles;
    } else {
        shared.tiles[0][thread] = 0;
    }
    const auto& last_tiles = sum_up(shared.tiles);
    if (thread < batches) {
        place.first_tile = last_tiles[at] - place.tiles;
        number_tiles(schedule, at, place);
    }
    return last_tiles[SCHEDULE_THREADS - 1];
}

// The same of places in device memory, of which each thread has some next to each other.
RAGGEDDNN_DEVICE inline int64_t number_many(const Schedule& schedule, int64_t batches,
                                            ScheduleShared& shared) {
    const int thread = thread_index();
    const int64_t share = (batches + SCHEDULE_THREADS - 1) / SCHEDULE_THREADS;
    const int64_t begin = thread * share;
    const int64_t end = begin + share < batches ? begin + share : batches;
    block_barrier();
    int64_t tiles = 0;
    for (int64_t i = begin; i < end; ++i) tiles += schedule.places[i].tiles;
    shared.tiles[0][thread] = tiles;
    const auto& last_tiles = sum_up(shared.tiles);
    int64_t first_tile = last_tiles[thread] - tiles;
    for (int64_t i = begin; i < end; ++i) {
        Place place = schedule.places[i];
        place.first_tile = first_tile;
        number_tiles(schedule, i, place);
        first_tile += place.tiles;
    }
    return last_tiles[SCHEDULE_THREADS - 1];
}

// Whether an execute before this one has left the schedule.
RAGGEDDNN_DEVICE inline bool take_made(const Schedule& schedule) {
    if (!schedule.is_taken || *schedule.made != schedule.name) return false;
    if (*schedule.made_behind != schedule.name) return false;
    if (thread_index() == 0 && schedule.faults) schedule.faults->owner = schedule.owner;
    return true;
}

// One block of SCHEDULE_THREADS threads. `Pass`: TILE_ROWS; Sequence; read(params, batch, fault),
// which makes one; rows(params, sequence), that something is written to; length(sequence), of the
// other side, which says how long a tile takes.
template <class Pass>
RAGGEDDNN_DEVICE void make_schedule(const typename Pass::Params& p, const Schedule& schedule,
                                    ScheduleShared& shared) {
    const int thread = thread_index();
    if (thread < 2 * MOST_DIES) schedule.next_work[thread] = 0;
    if (take_made(schedule)) return;
    const int64_t batches = p.batches;
    if (thread < SCHEDULE_BUCKETS) shared.counts[0][thread] = 0;
    if (thread == 0 && schedule.faults) *schedule.faults = {schedule.owner, {}};
    block_barrier();
    Fault fault;
    auto* const sequences = static_cast<typename Pass::Sequence*>(schedule.sequences);
    auto* const read = static_cast<typename Pass::Sequence*>(schedule.read);
    typename Pass::Sequence own{};  // of the thread's first batch, mostly its only one
    for (int64_t b = thread; b < batches; b += SCHEDULE_THREADS) {
        const typename Pass::Sequence s = Pass::read(p, b, fault);
        if (b == thread) {
            own = s;
        } else {
            read[b] = s;
        }
        add_shared(&shared.counts[0][bucket_of(Pass::length(s))], 1);
    }
    if (schedule.faults) claim_first(schedule.faults, fault);
    auto& ends = sum_up(shared.counts);
    if (schedule.faults) write_first(schedule.faults, fault);
    // Where no thread has a second batch, what becomes of its own never leaves the block.
    const bool is_one_each = batches <= SCHEDULE_THREADS;
    int64_t own_at = 0;
    Place own_place{};
    for (int64_t b = thread; b < batches; b += SCHEDULE_THREADS) {
        const typename Pass::Sequence s = b == thread ? own : read[b];
        // From a bucket's end to its beginning.
        const int64_t at = add_shared(&ends[bucket_of(Pass::length(s))], -1) - 1;
        const int64_t tiles = (Pass::rows(p, s) + Pass::TILE_ROWS - 1) / Pass::TILE_ROWS;
        const Place place{0, static_cast<int32_t>(tiles), heads_together<Pass>(p, s), b};
        if (is_one_each) {
            own_at = at;
            own_place = place;
        } else {
            schedule.places[at] = place;
        }
        sequences[at] = s;
    }
    const int64_t tiles = is_one_each ? number_own(schedule, batches, own_at, own_place, shared)
                                      : number_many(schedule, batches, shared);
    if (thread == 0) {
        *schedule.tiles = tiles;
        *schedule.made = schedule.name;
        *schedule.made_behind = schedule.name;
        if (schedule.overwritten) *schedule.overwritten = 0;
    }
}

}  // namespace raggeddnn::hip
