// From lengths to work: which tile of which batch and head comes next. The schedule kernel orders
// the batches, most keys first, so that the last tiles to be taken are short ones; blocks then take
// numbers. All heads of one tile follow each other where they share keys, for the cache.
#pragma once

#include "device.hpp"
#include "mask.hpp"
#include "params.hpp"
#include "sequence.hpp"

namespace raggeddnn::hip {

// Rows of a tile that something has to be written to: padding of dense tensors, too.
RAGGEDDNN_DEVICE inline int64_t rows_to_write(const ForwardParams& p, const Sequence& s) {
    const bool is_padded = p.is_o_dense || p.is_stats_dense;
    return is_padded ? p.max_rows_q : s.rows_q;
}

inline constexpr int SCHEDULE_THREADS = 256;
inline constexpr int SCHEDULE_BUCKETS = 128;

// Buckets of lengths, two for each power of two, the longest first.
RAGGEDDNN_DEVICE inline int bucket_of(int64_t keys) {
    if (keys < 2) return SCHEDULE_BUCKETS - 1;
    const int log = 63 - __builtin_clzll(static_cast<unsigned long long>(keys));
    const int half = static_cast<int>((keys >> (log - 1)) & 1);
    return SCHEDULE_BUCKETS - 1 - (2 * log + half);
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

// One block of SCHEDULE_THREADS threads.
template <int TILE_ROWS>
RAGGEDDNN_DEVICE void make_schedule(const ForwardParams& p, int* counts) {
    const int thread = thread_index();
    for (int i = thread; i < SCHEDULE_BUCKETS; i += SCHEDULE_THREADS) counts[i] = 0;
    if (thread == 0) *p.schedule.faults = {p.schedule.owner, {}};
    block_barrier();
    Fault fault;
    for (int64_t b = thread; b < p.batches; b += SCHEDULE_THREADS) {
        const Sequence s = read_sequence(p, b, fault);
        add_shared(&counts[bucket_of(s.valid_k)], 1);
    }
    claim_first(p.schedule.faults, fault);
    block_barrier();
    write_first(p.schedule.faults, fault);
    if (thread == 0) {
        int before = 0;
        for (int i = 0; i < SCHEDULE_BUCKETS; ++i) {
            const int count = counts[i];
            counts[i] = before;
            before += count;
        }
    }
    block_barrier();
    for (int64_t b = thread; b < p.batches; b += SCHEDULE_THREADS) {
        const Sequence s = read_sequence(p, b);
        const int place = add_shared(&counts[bucket_of(s.valid_k)], 1);
        p.schedule.batch_of_place[place] = static_cast<int32_t>(b);
        p.schedule.first_tile[place + 1] = (rows_to_write(p, s) + TILE_ROWS - 1) / TILE_ROWS;
    }
    block_barrier();
    if (thread == 0) {
        p.schedule.first_tile[0] = 0;
        for (int64_t i = 0; i < p.batches; ++i) {
            p.schedule.first_tile[i + 1] += p.schedule.first_tile[i];
        }
        *p.schedule.next_work = 0;
    }
}

struct Work {
    int64_t batch;
    int64_t tile;
    int64_t head;
    bool is_there;
};

RAGGEDDNN_DEVICE inline Work work_of(const ForwardParams& p, int64_t number) {
    const int64_t tiles = p.schedule.first_tile[p.batches];
    Work work{0, 0, 0, number < tiles * p.heads};
    if (!work.is_there) return work;
    // The last place whose work begins at or before the number.
    int64_t low = 0;
    int64_t high = p.batches;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        (p.schedule.first_tile[middle] * p.heads <= number ? low : high) = middle;
    }
    const int64_t own = p.schedule.first_tile[low + 1] - p.schedule.first_tile[low];
    const int64_t within = number - p.schedule.first_tile[low] * p.heads;
    work.batch = p.schedule.batch_of_place[low];
    work.head = within / own;
    work.tile = own - 1 - within % own;  // causal tiles get longer with their rows
    return work;
}

}  // namespace raggeddnn::hip
