// Rows from device memory to LDS through registers: loaded while the block computes, written when
// the memory is free. Values are transposed on the way.
#pragma once

#include "amd.hpp"
#include "gpu.hpp"
#include "stage.hpp"

namespace raggeddnn::hip {

// Single records, at once.
template <class Record>
RAGGEDDNN_DEVICE void fetch(Record* to, const Record* from) {
    *to = *from;
}
RAGGEDDNN_DEVICE inline void fetches_begun() {}
template <int>
RAGGEDDNN_DEVICE void fetched() {}

// The rows of a source block by block, for loads that the hardware keeps within bounds: what is the
// same for all threads is in scalar registers, and the offsets within a block never change.
template <class Block>
class BlockRows {
public:
    RAGGEDDNN_DEVICE BlockRows(const RowSource& source, int64_t first_row) {
        const RowSource from = source.from(first_row);
        source_ = {uniform(from.data), uniform(from.row_stride), uniform(from.rows),
                   uniform(from.width), true};
        constexpr int64_t MOST = 1 << 22;  // so that offsets within a block fit in 30 bits
        static_assert(Block::ROWS <= 128);
        is_wide_ = uniform(
            static_cast<int>(source.is_wide && source.row_stride >= 0 && source.row_stride < MOST));
    }
    // Whether load() may be asked.
    RAGGEDDNN_DEVICE bool is_wide() const { return is_wide_ != 0; }
    RAGGEDDNN_DEVICE uint32_t offset(int row, int chunk) const {
        const int element = row * static_cast<int>(source_.row_stride) + 8 * chunk;
        return 8 * chunk < source_.width ? 2 * static_cast<uint32_t>(element) : OUTSIDE;
    }
    // The chunk `row` rows after `offset`; `row` is the same for all threads.
    RAGGEDDNN_DEVICE Chunk load(uint32_t offset, int row) const {
        const int left = (source_.rows < Block::ROWS ? source_.rows : Block::ROWS) - row;
        const int elements = (left - 1) * static_cast<int>(source_.row_stride) + source_.width;
        return BoundedMemory(source_.at(row, 0), left > 0 ? 2 * static_cast<uint32_t>(elements) : 0)
            .load(offset);
    }
    RAGGEDDNN_DEVICE void next() { source_ = source_.from(Block::ROWS); }
    RAGGEDDNN_DEVICE const RowSource& source() const { return source_; }

private:
    static constexpr uint32_t OUTSIDE = 1U << 31;

    RowSource source_;
    int is_wide_;
};

// Rows that no wide load can read, by `THREADS` threads, element by element: slow, and out of the
// way.
template <class Tile, class Block, int THREADS>
RAGGEDDNN_COLD void gather_rows(uint16_t* memory, RowSource source) {
#pragma unroll 1
    for (int i = thread_index(); i < Block::ROWS * Block::WIDTH; i += THREADS) {
        const int row = i / Block::WIDTH;
        const int column = i % Block::WIDTH;
        memory[Tile::template place<Block>(row, column / 8) + column % 8] =
            source.element(row, column);
    }
}

// Blocks of rows one after another, by `THREADS` threads, each of whose units is UNIT_ROWS rows of
// one chunk. Registers are the second place that a block in flight needs: there is one in LDS.
template <class Block, int THREADS, int UNIT_ROWS>
struct RegisterStage {
    static constexpr bool WRITES_AT_FINISH = true;
    static constexpr int UNITS = Block::ROWS / UNIT_ROWS * Block::CHUNKS;
    static constexpr int PER_THREAD = (UNITS + THREADS - 1) / THREADS;

    RAGGEDDNN_DEVICE RegisterStage(const RowSource& source, int64_t first_row, uint16_t* memory)
        : rows_(source, first_row), memory_(memory), thread_(renewed_thread_index()) {
        find_offsets();
    }
    // Goes on with other rows.
    RAGGEDDNN_DEVICE void restart(const RowSource& source, int64_t first_row) {
        rows_ = BlockRows<Block>(source, first_row);
        find_offsets();
    }
    // Starts the next block.
    RAGGEDDNN_DEVICE void begin() {
        if (!rows_.is_wide()) return;
#pragma unroll
        for (int n = 0; n < PER_THREAD; ++n) {
#pragma unroll
            for (int row = 0; row < UNIT_ROWS; ++row) held_[n][row] = rows_.load(offset_[n], row);
        }
        rows_.next();
    }

protected:
    // write(held rows, first row, chunk), of each unit; `gather(source)` where no wide load can
    // read the rows.
    template <class Write, class Gather>
    RAGGEDDNN_DEVICE void finish_units(const Write& write, const Gather& gather) {
        if (!rows_.is_wide()) {
            gather(rows_.source());
            rows_.next();
            return;
        }
#pragma unroll
        for (int n = 0; n < PER_THREAD; ++n) {
            const int i = thread_ + n * THREADS;
            if (UNITS % THREADS == 0 || i < UNITS) {
                write(held_[n], UNIT_ROWS * (i / Block::CHUNKS), i % Block::CHUNKS);
            }
        }
    }
    RAGGEDDNN_DEVICE uint16_t* memory() const { return memory_; }

private:
    RAGGEDDNN_DEVICE void find_offsets() {
#pragma unroll
        for (int n = 0; n < PER_THREAD; ++n) {
            const int i = thread_ + n * THREADS;
            offset_[n] = rows_.offset(UNIT_ROWS * (i / Block::CHUNKS), i % Block::CHUNKS);
        }
    }

    BlockRows<Block> rows_;
    uint16_t* memory_;
    int thread_;
    uint32_t offset_[PER_THREAD];
    Chunk held_[PER_THREAD][UNIT_ROWS];
};

// Rows as they are, whatever SLOTS says in one place.
template <class Tile, class Block, int THREADS, int>
struct RowStage : RegisterStage<Block, THREADS, 1> {
    using Base = RegisterStage<Block, THREADS, 1>;
    static constexpr int SHARED_ELEMENTS = Block::ROWS * (Block::WIDTH + 8);
    using Base::Base;

    // The memory must be free.
    template <int PENDING>
    RAGGEDDNN_DEVICE void finish() {
        uint16_t* const memory = this->memory();
        this->finish_units(
            [memory](const Chunk(&rows)[1], int row, int chunk) {
                *reinterpret_cast<Chunk*>(memory + Tile::template place<Block>(row, chunk)) =
                    rows[0];
            },
            [memory](const RowSource& source) {
                gather_rows<Tile, Block, THREADS>(memory, source);
            });
    }
    RAGGEDDNN_DEVICE uint16_t* current() const { return this->memory(); }
};

// With rows and columns exchanged, so that four rows of a column lie together, and the rows as they
// are as well where IS_BOTH.
template <class Tile, class Block, int THREADS, bool IS_BOTH>
struct TransposingStage : RegisterStage<Block, THREADS, 4> {
    using Base = RegisterStage<Block, THREADS, 4>;
    static constexpr int ROW_ELEMENTS = IS_BOTH ? Block::ROWS * (Block::WIDTH + 8) : 0;
    static constexpr int SHARED_ELEMENTS = Block::WIDTH * (Block::ROWS + 8) + ROW_ELEMENTS;
    using Base::Base;

    // The memory must be free.
    template <int PENDING>
    RAGGEDDNN_DEVICE void finish() {
        this->finish_units(
            [this](const Chunk(&rows)[4], int row, int chunk) { write(rows, row, chunk); },
            [this](const RowSource& source) {
                gather(current_values(), source);
                if constexpr (IS_BOTH) gather_rows<Tile, Block, THREADS>(this->memory(), source);
            });
    }
    RAGGEDDNN_DEVICE uint16_t* current() const {
        static_assert(IS_BOTH);
        return this->memory();
    }
    RAGGEDDNN_DEVICE uint16_t* current_values() const { return this->memory() + ROW_ELEMENTS; }

private:
    RAGGEDDNN_DEVICE void write(const Chunk (&rows)[4], int row, int chunk) const {
        uint16_t* const columns =
            current_values() + Tile::template place_of_column<Block>(8 * chunk) + row;
#pragma unroll
        for (int column = 0; column < 8; ++column) {
            uint32_t pairs[2];
            for (int p = 0; p < 2; ++p) {
                pairs[p] = rows[2 * p].e[column] | static_cast<uint32_t>(rows[2 * p + 1].e[column])
                                                       << 16;
            }
            uint16_t* to = columns + Tile::template place_of_column<Block>(column);
            __builtin_memcpy(__builtin_assume_aligned(to, 8), pairs, sizeof(pairs));
        }
        if constexpr (IS_BOTH) {
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                *reinterpret_cast<Chunk*>(this->memory() + Tile::template place<Block>(row, chunk) +
                                          Tile::template place<Block>(r, 0)) = rows[r];
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
};

// Blocks that products take values from, and such that are read in both ways.
template <class Tile, class Block, int THREADS, int>
using ValueStage = TransposingStage<Tile, Block, THREADS, false>;
template <class Tile, class Block, int THREADS, int>
using BothStage = TransposingStage<Tile, Block, THREADS, true>;

}  // namespace raggeddnn::hip
