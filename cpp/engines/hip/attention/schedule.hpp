// From lengths to work: which tile of which batch and head comes next. The schedule kernel reads
// all offsets and lengths once and orders the batches, longest first, so that the last tiles to be
// taken are short ones; blocks then take numbers. All tiles of one head follow each other: they
// share keys, for the cache.
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

struct ScheduleShared {
    int counts[SCHEDULE_BUCKETS];
    int64_t tiles[SCHEDULE_THREADS];  // of the places of each thread
};

// The place that a tile belongs to: the last one that begins at or before it and is not empty.
RAGGEDDNN_DEVICE inline int64_t find_place(const Place* places, int64_t batches, int64_t tile) {
    int64_t low = 0;
    int64_t high = batches;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        (places[middle].first_tile <= tile ? low : high) = middle;
    }
    return low;
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

// One block of SCHEDULE_THREADS threads. `Pass`: TILE_ROWS; Sequence; read(params, batch, fault),
// which makes one; rows(params, sequence), that something is written to; length(sequence), of the
// other side, which says how long a tile takes.
template <class Pass>
RAGGEDDNN_DEVICE void make_schedule(const typename Pass::Params& p, const Schedule& schedule,
                                    ScheduleShared& shared) {
    const int thread = thread_index();
    const int64_t batches = p.batches;
    for (int i = thread; i < SCHEDULE_BUCKETS; i += SCHEDULE_THREADS) shared.counts[i] = 0;
    if (thread == 0 && schedule.faults) *schedule.faults = {schedule.owner, {}};
    block_barrier();
    Fault fault;
    for (int64_t b = thread; b < batches; b += SCHEDULE_THREADS) {
        const typename Pass::Sequence s = Pass::read(p, b, fault);
        add_shared(&shared.counts[bucket_of(Pass::length(s))], 1);
    }
    if (schedule.faults) claim_first(schedule.faults, fault);
    block_barrier();
    if (schedule.faults) write_first(schedule.faults, fault);
    if (thread == 0) {
        int before = 0;
        for (int i = 0; i < SCHEDULE_BUCKETS; ++i) {
            const int count = shared.counts[i];
            shared.counts[i] = before;
            before += count;
        }
    }
    block_barrier();
    for (int64_t b = thread; b < batches; b += SCHEDULE_THREADS) {
        const typename Pass::Sequence s = Pass::read(p, b, fault);
        const int place = add_shared(&shared.counts[bucket_of(Pass::length(s))], 1);
        const int64_t tiles = (Pass::rows(p, s) + Pass::TILE_ROWS - 1) / Pass::TILE_ROWS;
        schedule.places[place] = {0, static_cast<int32_t>(tiles), static_cast<int32_t>(b)};
        static_cast<typename Pass::Sequence*>(schedule.sequences)[place] = s;
    }
    block_barrier();
    // Counts of tiles become sums: each thread has places next to each other.
    const int64_t share = (batches + SCHEDULE_THREADS - 1) / SCHEDULE_THREADS;
    const int64_t begin = thread * share;
    const int64_t end = begin + share < batches ? begin + share : batches;
    int64_t own = 0;
    for (int64_t i = begin; i < end; ++i) own += schedule.places[i].tiles;
    shared.tiles[thread] = own;
    block_barrier();
    int64_t before = 0;
    int64_t all = 0;
    for (int i = 0; i < SCHEDULE_THREADS; ++i) {
        if (i < thread) before += shared.tiles[i];
        all += shared.tiles[i];
    }
    for (int64_t i = begin; i < end; ++i) {
        schedule.places[i].first_tile = before;
        before += schedule.places[i].tiles;
    }
    if (thread == 0) {
        *schedule.tiles = all;
        *schedule.next_work = 0;
    }
    block_barrier();
    for (int64_t tile = thread; tile < all; tile += SCHEDULE_THREADS) {
        schedule.place_of_tile[tile] =
            static_cast<int32_t>(find_place(schedule.places, batches, tile));
    }
}

struct Work {
    int64_t batch;
    int64_t tile;
    int64_t head;
    bool is_there;
};

// Work number `number`, and its sequence where there is one. `is_last_first`: tiles of a head in
// falling order, where those at the end take longest.
template <class Sequence>
RAGGEDDNN_DEVICE inline Work work_of(const Schedule& schedule, int64_t heads, int64_t number,
                                     bool is_last_first, Sequence& sequence) {
    Work work{0, 0, 0, number < *schedule.tiles * heads};
    if (!work.is_there) return work;
    const int32_t at = schedule.place_of_tile[number / heads];
    const Place place = schedule.places[at];
    sequence = static_cast<const Sequence*>(schedule.sequences)[at];
    const int64_t within = number - place.first_tile * heads;
    work.batch = place.batch;
    work.head = within / place.tiles;
    work.tile = within % place.tiles;
    if (is_last_first) work.tile = place.tiles - 1 - work.tile;
    return work;
}

}  // namespace raggeddnn::hip
