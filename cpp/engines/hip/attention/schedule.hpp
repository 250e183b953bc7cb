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
    int32_t counts[SCHEDULE_BUCKETS];  // of batches
    int64_t tiles[SCHEDULE_THREADS];   // of the places of each thread
};

// Each value becomes the sum of those up to it.
template <class T, int COUNT>
RAGGEDDNN_DEVICE void sum_up(T (&values)[COUNT]) {
    static_assert(COUNT <= SCHEDULE_THREADS);
    const int i = thread_index();
    for (int step = 1; step < COUNT; step *= 2) {
        block_barrier();
        const T before = i >= step && i < COUNT ? values[i - step] : 0;
        block_barrier();
        if (i < COUNT) values[i] += before;
    }
    block_barrier();
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
    if (thread < SCHEDULE_BUCKETS) shared.counts[thread] = 0;
    if (thread == 0 && schedule.faults) *schedule.faults = {schedule.owner, {}};
    block_barrier();
    Fault fault;
    auto* const sequences = static_cast<typename Pass::Sequence*>(schedule.sequences);
    auto* const read = static_cast<typename Pass::Sequence*>(schedule.read);
    for (int64_t b = thread; b < batches; b += SCHEDULE_THREADS) {
        read[b] = Pass::read(p, b, fault);
        add_shared(&shared.counts[bucket_of(Pass::length(read[b]))], 1);
    }
    if (schedule.faults) claim_first(schedule.faults, fault);
    sum_up(shared.counts);
    if (schedule.faults) write_first(schedule.faults, fault);
    for (int64_t b = thread; b < batches; b += SCHEDULE_THREADS) {
        const typename Pass::Sequence s = read[b];
        // From a bucket's end to its beginning.
        const int64_t place = add_shared(&shared.counts[bucket_of(Pass::length(s))], -1) - 1;
        const int64_t tiles = (Pass::rows(p, s) + Pass::TILE_ROWS - 1) / Pass::TILE_ROWS;
        schedule.places[place] = {0, static_cast<int32_t>(tiles), static_cast<int32_t>(b)};
        sequences[place] = s;
    }
    block_barrier();
    // Each thread has places next to each other.
    const int64_t share = (batches + SCHEDULE_THREADS - 1) / SCHEDULE_THREADS;
    const int64_t begin = thread * share;
    const int64_t end = begin + share < batches ? begin + share : batches;
    int64_t own = 0;
    for (int64_t i = begin; i < end; ++i) own += schedule.places[i].tiles;
    shared.tiles[thread] = own;
    sum_up(shared.tiles);
    int64_t tile = shared.tiles[thread] - own;
    for (int64_t i = begin; i < end; ++i) {
        schedule.places[i].first_tile = tile;
        const int64_t last = tile + schedule.places[i].tiles;
        for (; tile < last; ++tile) schedule.place_of_tile[tile] = static_cast<int32_t>(i);
    }
    if (thread == SCHEDULE_THREADS - 1) {
        *schedule.tiles = shared.tiles[thread];
        schedule.next_work[0] = 0;
        schedule.next_work[1] = 0;
    }
}

}  // namespace raggeddnn::hip
