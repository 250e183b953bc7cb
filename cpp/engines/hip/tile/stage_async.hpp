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
    static constexpr int SLOT_ELEMENTS = Block::ROWS * STORED_WIDTH<Block>;

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

// Blocks of rows one after another, by `THREADS` threads, into `SLOTS` places in turns. As
// stage_registers.hpp has it. Eight threads share a row of a panel of 64 columns, and take one
// panel after the other: a thread's places differ by constants, and it keeps little more than the
// address of its next chunk.
template <class Tile, class Block, int THREADS, int SLOTS>
struct RowStage : Slots<Block, SLOTS> {
    static constexpr bool WRITES_AT_FINISH = false;
    static constexpr int SHARED_ELEMENTS = SLOTS * Slots<Block, SLOTS>::SLOT_ELEMENTS;
    static constexpr int PASS = 8 * THREADS / PANEL;  // rows at a time
    static_assert(PASS % 8 == 0 && Block::ROWS % PASS == 0);

    template <class Row>
    RAGGEDDNN_DEVICE RowStage(const RowSource& source, Row first_row, uint16_t* memory)
        : Slots<Block, SLOTS>{memory},
          place_(Tile::template place<Block>(static_cast<int>(row()),
                                             static_cast<int>(column() / 8))) {
        if constexpr (THREADS <= 128) place_ = kept(place_);  // more have no register to spare
        restart(source, first_row);
    }
    template <class Row>
    RAGGEDDNN_DEVICE void restart(const RowSource& whole, Row first_row) {
        const RowSource source = whole.from(first_row);
        const int columns = source.width - static_cast<int>(column());
        next_ = source.data + (row() * source.row_stride + column());
        step_ = PASS * source.row_stride;
        rows_ = columns > 0 ? source.rows - static_cast<int>(row()) : 0;
        panels_ = source.is_wide ? (columns + PANEL - 1) / PANEL : -source.width;
    }
    RAGGEDDNN_DEVICE void begin() {
        uint16_t* const memory = this->advance();
        if (panels_ < 0) {
            gather(memory + place_, next_, step_, rows_, -panels_ - static_cast<int>(column()));
            next_ += Block::ROWS / PASS * step_;
        } else {
            int rows[PANELS<Block>];
#pragma unroll
            for (int panel = 0; panel < PANELS<Block>; ++panel) {
                rows[panel] = panel == 0 || panel < panels_ ? rows_ : 0;
            }
#pragma unroll
            for (int row = 0; row < Block::ROWS; row += PASS) {
#pragma unroll
                for (int panel = 0; panel < PANELS<Block>; ++panel) {
                    copy_async_16(memory, place_ + at(row, panel), next_ + PANEL * panel,
                                  row < rows[panel]);
                }
                next_ += step_;
            }
        }
        rows_ -= Block::ROWS;
        copies_commit();
    }
    // The last block that arrived as the values of a product.
    RAGGEDDNN_DEVICE uint16_t* current_values() const { return this->current(); }

private:
    // Never negative, as the compiler is to know.
    RAGGEDDNN_DEVICE static uint32_t thread() { return static_cast<uint32_t>(thread_index()); }
    RAGGEDDNN_DEVICE static uint32_t row() { return thread() / (PANEL / 8); }
    RAGGEDDNN_DEVICE static uint32_t column() { return 8 * (thread() % (PANEL / 8)); }
    // From a thread's place on.
    RAGGEDDNN_DEVICE static constexpr int at(int row, int panel) {
        return row * Tile::template pitch<Block>() + panel * Tile::template panel_pitch<Block>();
    }

    // Element by element, where no wide load can read the rows: slow, and out of the way.
    RAGGEDDNN_COLD static void gather(uint16_t* to, const uint16_t* from, int64_t step, int rows,
                                      int columns) {
#pragma unroll 1
        for (int row = 0; row < Block::ROWS; row += PASS, from += step) {
            for (int i = 0; i < 8 * PANELS<Block>; ++i) {
                const int panel = i / 8;
                const int column = PANEL * panel + i % 8;
                const bool is_there = row < rows && column < columns;
                to[at(row, panel) + i % 8] = is_there ? from[column] : uint16_t{0};
            }
        }
    }

    const uint16_t* next_;
    int64_t step_;  // elements
    int rows_;      // from there on that exist
    int place_;
    int panels_;  // that the thread has something of, or the width with a minus: no wide loads
};

// Blocks that products take values from, and such that are read in both ways.
template <class Tile, class Block, int THREADS, int SLOTS>
using ValueStage = RowStage<Tile, Block, THREADS, SLOTS>;
template <class Tile, class Block, int THREADS, int SLOTS>
using BothStage = RowStage<Tile, Block, THREADS, SLOTS>;

}  // namespace raggeddnn::hip
