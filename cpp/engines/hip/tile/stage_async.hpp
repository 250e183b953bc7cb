// Rows from device memory to shared memory by asynchronous copies, which need no registers and
// arrive while the block computes.
#pragma once

#include "gpu.hpp"
#include "nvidia.hpp"
#include "stage.hpp"

namespace raggeddnn::hip {

// Blocks of rows one after another, by `THREADS` threads, into `SLOTS` places in turns.
template <class Tile, class Block, int THREADS, int SLOTS>
struct RowStage {
    static constexpr bool WRITES_AT_FINISH = false;
    static constexpr int CHUNKS = Block::CHUNKS;
    static constexpr int SLOT_ELEMENTS = Block::ROWS * Block::WIDTH;
    static constexpr int SHARED_ELEMENTS = SLOTS * SLOT_ELEMENTS;
    static constexpr int PER_THREAD = (Block::ROWS * CHUNKS + THREADS - 1) / THREADS;
    // Rows that the threads copy at a time. Where they are whole groups of eight, a thread's places
    // differ by a constant.
    static constexpr int PASS = THREADS / CHUNKS;
    static constexpr bool IS_REGULAR =
        THREADS % CHUNKS == 0 && PASS % 8 == 0 && Block::ROWS % (PASS == 0 ? 1 : PASS) == 0;

    RAGGEDDNN_DEVICE RowStage(const RowSource& source, int64_t first_row, uint16_t* memory)
        : memory_(memory) {
        restart(source, first_row);
    }
    // Goes on with other rows.
    RAGGEDDNN_DEVICE void restart(const RowSource& source, int64_t first_row) {
        source_ = source.from(first_row);
        if constexpr (IS_REGULAR) {
            const int row = thread_index() / CHUNKS;
            const int column = 8 * (thread_index() % CHUNKS);
            next_ = source_.at(row, column);
            left_ = column < source_.width ? source_.rows - row : 0;
            place_ = Tile::template place<Block>(row, column / 8);
        }
    }

    // Starts the next block; with SLOTS 1 the memory must be free, else what was begun before the
    // last block.
    RAGGEDDNN_DEVICE void begin() {
        begun_ = begun_ + 1 == SLOTS ? 0 : begun_ + 1;
        uint16_t* memory = memory_ + begun_ * SLOT_ELEMENTS;
        if (!source_.is_wide) {
            gather_rows<Tile, Block, THREADS>(memory, source_);
            source_ = source_.from(Block::ROWS);
        } else if constexpr (IS_REGULAR) {
#pragma unroll
            for (int n = 0; n < PER_THREAD; ++n) {
                copy_async_16(memory, place_ + n * PASS * Tile::template pitch<Block>(), next_,
                              n * PASS < left_);
                next_ += PASS * source_.row_stride;
            }
            left_ -= Block::ROWS;
        } else {
#pragma unroll
            for (int n = 0; n < PER_THREAD; ++n) {
                const int i = thread_index() + n * THREADS;
                if (Block::ROWS * CHUNKS % THREADS != 0 && i >= Block::ROWS * CHUNKS) break;
                const int row = i / CHUNKS;
                const int column = 8 * (i % CHUNKS);
                copy_async_16(memory, Tile::template place<Block>(row, column / 8),
                              source_.at(row, column), source_.has(row, column));
            }
            source_ = source_.from(Block::ROWS);
        }
        copies_commit();
    }
    // The last block begun is there, once the threads have met at a barrier.
    RAGGEDDNN_DEVICE void finish() {
        copies_done<0>();
        arrived_ = begun_;
    }
    // The last block that arrived, and the same as the values of a product.
    RAGGEDDNN_DEVICE uint16_t* current() const { return memory_ + arrived_ * SLOT_ELEMENTS; }
    RAGGEDDNN_DEVICE uint16_t* current_values() const { return current(); }

private:
    RowSource source_;
    uint16_t* memory_;
    const uint16_t* next_ = nullptr;  // this thread's next chunk, with IS_REGULAR
    int left_ = 0;                    // rows from there on that exist
    int place_ = 0;
    int begun_ = SLOTS - 1;
    int arrived_ = 0;
};

// Blocks that products take values from, and such that are read in both ways.
template <class Tile, class Block, int THREADS, int SLOTS>
using ValueStage = RowStage<Tile, Block, THREADS, SLOTS>;
template <class Tile, class Block, int THREADS, int SLOTS>
using BothStage = RowStage<Tile, Block, THREADS, SLOTS>;

}  // namespace raggeddnn::hip
