// Rows from device memory to shared memory by asynchronous copies, which need no registers and
// arrive while the block computes.
#pragma once

#include "gpu.hpp"
#include "nvidia.hpp"
#include "stage.hpp"

namespace raggeddnn::hip {

// Single records on the same way: a group of the thread that asks, once its begun; there, for that
// thread, when fetched() returns, which `PENDING` groups begun later need not be.
template <class Record>
RAGGEDDNN_DEVICE void fetch(Record* to, const Record* from) {
    static_assert(sizeof(Record) % 16 == 0 && alignof(Record) % 16 == 0);
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(Record) / 2); i += 8) {
        copy_async_16(reinterpret_cast<uint16_t*>(to), i,
                      reinterpret_cast<const uint16_t*>(from) + i, true);
    }
}
RAGGEDDNN_DEVICE inline void fetches_begun() { copies_commit(); }
template <int PENDING>
RAGGEDDNN_DEVICE void fetched() {
    copies_done<PENDING>();
}

// Which of the places in shared memory a stage is at.
template <class Block, int SLOTS>
struct Slots {
    static constexpr int SLOT_ELEMENTS = Block::ROWS * Block::WIDTH;

    // Where the next block goes: with SLOTS 1 the memory must be free, else what was begun before
    // the last block.
    RAGGEDDNN_DEVICE uint16_t* advance() {
        begun = begun + 1 == SLOTS ? 0 : begun + 1;
        return memory + begun * SLOT_ELEMENTS;
    }
    template <int PENDING>
    RAGGEDDNN_DEVICE void finish() {
        copies_done<PENDING>();
        arrived = begun;
    }
    RAGGEDDNN_DEVICE uint16_t* current() const { return memory + arrived * SLOT_ELEMENTS; }

    uint16_t* memory;
    int begun = SLOTS - 1;
    int arrived = 0;
};

// Blocks of rows one after another, by `THREADS` threads, into `SLOTS` places in turns.
template <class Tile, class Block, int THREADS, int SLOTS>
struct GeneralStage : Slots<Block, SLOTS> {
    static constexpr int PER_THREAD = (Block::ROWS * Block::CHUNKS + THREADS - 1) / THREADS;

    RAGGEDDNN_DEVICE GeneralStage(const RowSource& source, int64_t first_row, uint16_t* memory)
        : Slots<Block, SLOTS>{memory} {
        restart(source, first_row);
    }
    RAGGEDDNN_DEVICE void restart(const RowSource& source, int64_t first_row) {
        source_ = source.from(first_row);
    }
    RAGGEDDNN_DEVICE void begin() {
        uint16_t* memory = this->advance();
        if (!source_.is_wide) {
            gather_rows<Tile, Block, THREADS>(memory, source_);
        } else {
#pragma unroll
            for (int n = 0; n < PER_THREAD; ++n) {
                const int i = thread_index() + n * THREADS;
                if (Block::ROWS * Block::CHUNKS % THREADS != 0 &&
                    i >= Block::ROWS * Block::CHUNKS) {
                    break;
                }
                const int row = i / Block::CHUNKS;
                const int column = 8 * (i % Block::CHUNKS);
                copy_async_16(memory, Tile::template place<Block>(row, column / 8),
                              source_.at(row, column), source_.has(row, column));
            }
        }
        source_ = source_.from(Block::ROWS);
        copies_commit();
    }

private:
    RowSource source_;
};

// The same where the threads copy whole groups of eight rows at a time: a thread's places differ by
// a constant, and it keeps little more than the address of its next chunk.
template <class Tile, class Block, int THREADS, int SLOTS>
struct RegularStage : Slots<Block, SLOTS> {
    static constexpr int PASS = THREADS / Block::CHUNKS;  // rows at a time
    static constexpr int PER_THREAD = Block::ROWS / PASS;

    template <class Row>
    RAGGEDDNN_DEVICE RegularStage(const RowSource& source, Row first_row, uint16_t* memory)
        : Slots<Block, SLOTS>{memory},
          place_(kept(Tile::template place<Block>(static_cast<int>(row()),
                                                  static_cast<int>(column() / 8)))) {
        restart(source, first_row);
    }
    template <class Row>
    RAGGEDDNN_DEVICE void restart(const RowSource& whole, Row first_row) {
        const RowSource source = whole.from(first_row);
        next_ = source.data + (row() * source.row_stride + column());
        step_ = PASS * source.row_stride;
        rows_ = static_cast<int>(column()) < source.width ? source.rows - static_cast<int>(row())
                                                          : 0;
        narrow_ = source.is_wide ? 0 : source.width;
    }
    RAGGEDDNN_DEVICE void begin() {
        uint16_t* memory = this->advance();
        if (narrow_ != 0) {
            gather(memory + place_, next_, step_, rows_, narrow_ - static_cast<int>(column()));
            next_ += PER_THREAD * step_;
        } else {
#pragma unroll
            for (int n = 0; n < PER_THREAD; ++n) {
                copy_async_16(memory, place_ + n * PASS * Tile::template pitch<Block>(), next_,
                              n * PASS < rows_);
                next_ += step_;
            }
        }
        rows_ -= Block::ROWS;
        copies_commit();
    }

private:
    // Never negative, as the compiler is to know.
    RAGGEDDNN_DEVICE static uint32_t thread() { return static_cast<uint32_t>(thread_index()); }
    RAGGEDDNN_DEVICE static uint32_t row() { return thread() / Block::CHUNKS; }
    RAGGEDDNN_DEVICE static uint32_t column() { return 8 * (thread() % Block::CHUNKS); }

    // Element by element, where no wide load can read the rows: slow, and out of the way.
    RAGGEDDNN_COLD static void gather(uint16_t* to, const uint16_t* from, int64_t step, int rows,
                                      int columns) {
#pragma unroll 1
        for (int n = 0; n < PER_THREAD; ++n) {
            for (int i = 0; i < 8; ++i) {
                const bool is_there = n * PASS < rows && i < columns;
                to[n * PASS * Tile::template pitch<Block>() + i] =
                    is_there ? from[n * step + i] : uint16_t{0};
            }
        }
    }

    const uint16_t* next_;
    int64_t step_;  // elements
    int rows_;      // from there on that exist
    int place_;
    int narrow_;  // the width, where chunks are copied element by element, or 0
};

template <class Block, int THREADS>
inline constexpr bool IS_REGULAR =
    THREADS % Block::CHUNKS == 0 && THREADS / Block::CHUNKS % 8 == 0 &&
    Block::ROWS % (THREADS / Block::CHUNKS) == 0;
template <bool, class Regular, class General>
struct ChosenStage {
    using Type = Regular;
};
template <class Regular, class General>
struct ChosenStage<false, Regular, General> {
    using Type = General;
};

// As stage_registers.hpp has it.
template <class Tile, class Block, int THREADS, int SLOTS>
struct RowStage : ChosenStage<IS_REGULAR<Block, THREADS>, RegularStage<Tile, Block, THREADS, SLOTS>,
                              GeneralStage<Tile, Block, THREADS, SLOTS>>::Type {
    using Base =
        typename ChosenStage<IS_REGULAR<Block, THREADS>, RegularStage<Tile, Block, THREADS, SLOTS>,
                             GeneralStage<Tile, Block, THREADS, SLOTS>>::Type;
    static constexpr bool WRITES_AT_FINISH = false;
    static constexpr int SHARED_ELEMENTS = SLOTS * Base::SLOT_ELEMENTS;
    using Base::Base;
    // The last block that arrived as the values of a product.
    RAGGEDDNN_DEVICE uint16_t* current_values() const { return this->current(); }
};

// Blocks that products take values from, and such that are read in both ways.
template <class Tile, class Block, int THREADS, int SLOTS>
using ValueStage = RowStage<Tile, Block, THREADS, SLOTS>;
template <class Tile, class Block, int THREADS, int SLOTS>
using BothStage = RowStage<Tile, Block, THREADS, SLOTS>;

}  // namespace raggeddnn::hip
