// Rows from device memory to LDS through registers: loaded while the block computes, written when
// the memory is free. Values are transposed on the way.
#pragma once

#include "amd.hpp"
#include "gpu.hpp"
#include "stage.hpp"

namespace raggeddnn::hip {

// Single numbers, at once.
RAGGEDDNN_DEVICE inline void fetch_4(int32_t* to, const int32_t* from) { *to = *from; }
template <class Record>
RAGGEDDNN_DEVICE void fetch(Record* to, const Record* from) {
    *to = *from;
}
RAGGEDDNN_DEVICE inline void fetched() {}

// Blocks of rows one after another, by `THREADS` threads. Registers are the second place that a
// block in flight needs: there is one in LDS, whatever SLOTS says.
template <class Tile, class Block, int THREADS, int>
struct RowStage {
    static constexpr bool WRITES_AT_FINISH = true;
    static constexpr int CHUNKS = Block::CHUNKS;
    static constexpr int SHARED_ELEMENTS = Block::ROWS * (Block::WIDTH + 8);
    static constexpr int PER_THREAD = (Block::ROWS * CHUNKS + THREADS - 1) / THREADS;

    RAGGEDDNN_DEVICE RowStage(const RowSource& source, int64_t first_row, uint16_t* memory)
        : source_(source.from(first_row)), memory_(memory) {}
    // Goes on with other rows.
    RAGGEDDNN_DEVICE void restart(const RowSource& source, int64_t first_row) {
        source_ = source.from(first_row);
    }

    // Starts the next block.
    RAGGEDDNN_DEVICE void begin() {
        if (!source_.is_wide) return;
#pragma unroll
        for (int n = 0; n < PER_THREAD; ++n) {
            const int i = thread_index() + n * THREADS;
            if (i < Block::ROWS * CHUNKS) held_[n] = source_.chunk(i / CHUNKS, 8 * (i % CHUNKS));
        }
        source_ = source_.from(Block::ROWS);
    }
    // The memory must be free.
    template <int PENDING>
    RAGGEDDNN_DEVICE void finish() {
        if (!source_.is_wide) {
            gather_rows<Tile, Block, THREADS>(memory_, source_);
            source_ = source_.from(Block::ROWS);
            return;
        }
#pragma unroll
        for (int n = 0; n < PER_THREAD; ++n) {
            const int i = thread_index() + n * THREADS;
            if (i >= Block::ROWS * CHUNKS) continue;
            *reinterpret_cast<Chunk*>(
                memory_ + Tile::template place<Block>(i / CHUNKS, i % CHUNKS)) = held_[n];
        }
    }
    RAGGEDDNN_DEVICE uint16_t* current() const { return memory_; }

private:
    RowSource source_;
    uint16_t* memory_;
    Chunk held_[PER_THREAD];
};

// The same with rows and columns exchanged, so that four rows of a column lie together, and the
// rows as they are as well where IS_BOTH.
template <class Tile, class Block, int THREADS, bool IS_BOTH>
struct TransposingStage {
    static constexpr bool WRITES_AT_FINISH = true;
    static constexpr int CHUNKS = Block::CHUNKS;
    static constexpr int UNITS = Block::ROWS / 4 * CHUNKS;  // of 4 rows by 8 columns
    static constexpr int ROW_ELEMENTS = IS_BOTH ? Block::ROWS * (Block::WIDTH + 8) : 0;
    static constexpr int SHARED_ELEMENTS = Block::WIDTH * (Block::ROWS + 8) + ROW_ELEMENTS;
    static constexpr int PER_THREAD = (UNITS + THREADS - 1) / THREADS;

    RAGGEDDNN_DEVICE TransposingStage(const RowSource& source, int64_t first_row, uint16_t* memory)
        : source_(source.from(first_row)), memory_(memory) {}
    // Goes on with other rows.
    RAGGEDDNN_DEVICE void restart(const RowSource& source, int64_t first_row) {
        source_ = source.from(first_row);
    }

    RAGGEDDNN_DEVICE void begin() {
        if (!source_.is_wide) return;
#pragma unroll
        for (int n = 0; n < PER_THREAD; ++n) {
            const int i = thread_index() + n * THREADS;
            if (i >= UNITS) continue;
#pragma unroll
            for (int row = 0; row < 4; ++row) {
                held_[n][row] = source_.chunk(4 * (i / CHUNKS) + row, 8 * (i % CHUNKS));
            }
        }
        source_ = source_.from(Block::ROWS);
    }
    template <int PENDING>
    RAGGEDDNN_DEVICE void finish() {
        if (!source_.is_wide) {
            gather(current_values(), source_);
            if constexpr (IS_BOTH) gather_rows<Tile, Block, THREADS>(memory_, source_);
            source_ = source_.from(Block::ROWS);
            return;
        }
#pragma unroll
        for (int n = 0; n < PER_THREAD; ++n) {
            const int i = thread_index() + n * THREADS;
            if (i < UNITS) write(held_[n], 4 * (i / CHUNKS), i % CHUNKS);
        }
    }
    RAGGEDDNN_DEVICE uint16_t* current() const {
        static_assert(IS_BOTH);
        return memory_;
    }
    RAGGEDDNN_DEVICE uint16_t* current_values() const { return memory_ + ROW_ELEMENTS; }

private:
    RAGGEDDNN_DEVICE void write(const Chunk (&rows)[4], int row, int chunk) const {
#pragma unroll
        for (int column = 0; column < 8; ++column) {
            uint32_t pairs[2];
            for (int p = 0; p < 2; ++p) {
                pairs[p] = rows[2 * p].e[column] | static_cast<uint32_t>(rows[2 * p + 1].e[column])
                                                       << 16;
            }
            uint16_t* to =
                current_values() + Tile::template place_of_column<Block>(8 * chunk + column) + row;
            __builtin_memcpy(__builtin_assume_aligned(to, 8), pairs, sizeof(pairs));
        }
        if constexpr (IS_BOTH) {
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                *reinterpret_cast<Chunk*>(memory_ + Tile::template place<Block>(row + r, chunk)) =
                    rows[r];
            }
        }
    }
    RAGGEDDNN_COLD static void gather(uint16_t* memory, RowSource source) {
#pragma unroll 1
        for (int i = thread_index(); i < Block::ROWS * Block::WIDTH; i += THREADS) {
            const int row = i / Block::WIDTH;
            const int column = i % Block::WIDTH;
            memory[Tile::template place_of_column<Block>(column) + row] =
                source.element(row, column);
        }
    }

    RowSource source_;
    uint16_t* memory_;
    Chunk held_[PER_THREAD][4];
};

// Blocks that products take values from, and such that are read in both ways.
template <class Tile, class Block, int THREADS, int>
using ValueStage = TransposingStage<Tile, Block, THREADS, false>;
template <class Tile, class Block, int THREADS, int>
using BothStage = TransposingStage<Tile, Block, THREADS, true>;

}  // namespace raggeddnn::hip
