// Rows from device memory to shared memory by asynchronous copies, which need no registers and
// arrive while the block computes.
#pragma once

#include "gpu.hpp"
#include "nvidia.hpp"
#include "stage.hpp"

namespace raggeddnn::hip {

// `ROWS` rows of `WIDTH` elements by `THREADS` threads.
template <class Tile, int ROWS, int WIDTH, int THREADS>
struct RowStage {
    static constexpr int CHUNKS = WIDTH / 8;
    static constexpr int SHARED_ELEMENTS = ROWS * WIDTH;
    static constexpr int PER_THREAD = (ROWS * CHUNKS + THREADS - 1) / THREADS;
    // Rows that the threads copy at a time. Where they are whole groups of eight, a thread's places
    // differ by a constant.
    static constexpr int PASS = THREADS / CHUNKS;
    static constexpr bool IS_REGULAR =
        THREADS % CHUNKS == 0 && PASS % 8 == 0 && ROWS % (PASS == 0 ? 1 : PASS) == 0;

    RAGGEDDNN_DEVICE RowStage(const RowSource& source, int64_t first_row)
        : source_(source.from(first_row)) {
        if constexpr (IS_REGULAR) {
            const int row = thread_index() / CHUNKS;
            const int column = 8 * (thread_index() % CHUNKS);
            next_ = source_.at(row, column);
            left_ = column < source_.width ? source_.rows - row : 0;
            place_ = Tile::template place<WIDTH>(row, column / 8);
        }
    }

    // Starts the next ROWS rows; the memory must be free.
    RAGGEDDNN_DEVICE void begin(uint16_t* memory) {
        if (!source_.is_wide) {
            gather_rows<Tile, ROWS, WIDTH, THREADS>(memory, source_);
            source_ = source_.from(ROWS);
        } else if constexpr (IS_REGULAR) {
#pragma unroll
            for (int n = 0; n < PER_THREAD; ++n) {
                copy_async_16(memory, place_ + n * PASS * WIDTH, next_, n * PASS < left_);
                next_ += PASS * source_.row_stride;
            }
            left_ -= ROWS;
        } else {
#pragma unroll
            for (int n = 0; n < PER_THREAD; ++n) {
                const int i = thread_index() + n * THREADS;
                if (ROWS * CHUNKS % THREADS != 0 && i >= ROWS * CHUNKS) break;
                const int row = i / CHUNKS;
                const int column = 8 * (i % CHUNKS);
                copy_async_16(memory, Tile::template place<WIDTH>(row, column / 8),
                              source_.at(row, column), source_.has(row, column));
            }
            source_ = source_.from(ROWS);
        }
        copies_commit();
    }
    // All but the `PENDING` stages begun last are there, once the block has met at a barrier.
    template <int PENDING>
    RAGGEDDNN_DEVICE void finish(uint16_t*) {
        copies_done<PENDING>();
    }

private:
    RowSource source_;
    const uint16_t* next_ = nullptr;  // this thread's next chunk, with IS_REGULAR
    int left_ = 0;                    // rows from there on that exist
    int place_ = 0;
};

template <class Tile, int KEYS, int WIDTH, int THREADS>
using ValueStage = RowStage<Tile, KEYS, WIDTH, THREADS>;

}  // namespace raggeddnn::hip
