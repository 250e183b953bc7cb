// From lengths to work: which tile of which batch and head comes next. The schedule kernel orders
// the batches, longest first, so that the last tiles to be taken are short ones; blocks then take
// numbers. All tiles of one head follow each other: they share keys, for the cache.
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

// What one batch asks of one pass.
struct BatchWork {
    int64_t rows;    // that something is written to: padding of dense tensors, too
    int64_t length;  // of the other side: what a tile takes
    bool is_faulty;
};

struct ScheduleShared {
    int counts[SCHEDULE_BUCKETS];
    int64_t tiles[SCHEDULE_THREADS];  // of the places of each thread
};

// One block of SCHEDULE_THREADS threads. `work_of_batch(batch)` is a BatchWork.
template <int TILE_ROWS, class WorkOfBatch>
RAGGEDDNN_DEVICE void make_schedule(const Schedule& schedule, int64_t batches,
                                    const WorkOfBatch& work_of_batch, ScheduleShared& shared) {
    const int thread = thread_index();
    for (int i = thread; i < SCHEDULE_BUCKETS; i += SCHEDULE_THREADS) shared.counts[i] = 0;
    block_barrier();
    for (int64_t b = thread; b < batches; b += SCHEDULE_THREADS) {
        const BatchWork work = work_of_batch(b);
        if (work.is_faulty) raise_flag(schedule.faults);
        add_shared(&shared.counts[bucket_of(work.length)], 1);
    }
    block_barrier();
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
        const BatchWork work = work_of_batch(b);
        const int place = add_shared(&shared.counts[bucket_of(work.length)], 1);
        schedule.batch_of_place[place] = static_cast<int32_t>(b);
        schedule.first_tile[place + 1] = (work.rows + TILE_ROWS - 1) / TILE_ROWS;
    }
    block_barrier();
    // Counts of tiles become sums: each thread has places next to each other.
    const int64_t share = (batches + SCHEDULE_THREADS - 1) / SCHEDULE_THREADS;
    const int64_t begin = thread * share;
    const int64_t end = begin + share < batches ? begin + share : batches;
    int64_t own = 0;
    for (int64_t i = begin; i < end; ++i) own += schedule.first_tile[i + 1];
    shared.tiles[thread] = own;
    block_barrier();
    int64_t before = 0;
    for (int i = 0; i < thread; ++i) before += shared.tiles[i];
    for (int64_t i = begin; i < end; ++i) {
        before += schedule.first_tile[i + 1];
        schedule.first_tile[i + 1] = before;
    }
    if (thread == 0) {
        schedule.first_tile[0] = 0;
        *schedule.next_work = 0;
    }
}

struct Work {
    int64_t batch;
    int64_t tile;
    int64_t head;
    bool is_there;
};

// `is_last_first`: tiles of a head in falling order, where those at the end take longest.
RAGGEDDNN_DEVICE inline Work work_of(const Schedule& schedule, int64_t batches, int64_t heads,
                                     int64_t number, bool is_last_first) {
    const int64_t tiles = schedule.first_tile[batches];
    Work work{0, 0, 0, number < tiles * heads};
    if (!work.is_there) return work;
    // The last place whose work begins at or before the number.
    int64_t low = 0;
    int64_t high = batches;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        (schedule.first_tile[middle] * heads <= number ? low : high) = middle;
    }
    const int64_t own = schedule.first_tile[low + 1] - schedule.first_tile[low];
    const int64_t within = number - schedule.first_tile[low] * heads;
    work.batch = schedule.batch_of_place[low];
    work.head = within / own;
    work.tile = is_last_first ? own - 1 - within % own : within % own;
    return work;
}

}  // namespace raggeddnn::hip
