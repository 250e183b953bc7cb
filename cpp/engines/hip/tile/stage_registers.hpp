// Rows from device memory to LDS through registers: loaded while the block computes, written when
// the memory is free. Values are transposed on the way.
#pragma once

#include "amd.hpp"
#include "gpu.hpp"
#include "stage.hpp"

namespace raggeddnn::hip {

// `ROWS` rows of `WIDTH` elements by `THREADS` threads.
template <class Tile, int ROWS, int WIDTH, int THREADS>
struct RowStage {
    static constexpr int CHUNKS = WIDTH / 8;
    static constexpr int SHARED_ELEMENTS = ROWS * (WIDTH + 8);
    static constexpr int PER_THREAD = (ROWS * CHUNKS + THREADS - 1) / THREADS;

    RAGGEDDNN_DEVICE RowStage(const RowSource& source, int64_t first_row)
        : source_(source.from(first_row)) {}

    // Starts the next ROWS rows.
    RAGGEDDNN_DEVICE void begin(uint16_t*) {
        if (!source_.is_wide) return;
#pragma unroll
        for (int n = 0; n < PER_THREAD; ++n) {
            const int i = thread_index() + n * THREADS;
            if (i < ROWS * CHUNKS) held_[n] = source_.chunk(i / CHUNKS, 8 * (i % CHUNKS));
        }
        source_ = source_.from(ROWS);
    }
    template <int PENDING>
    RAGGEDDNN_DEVICE void finish(uint16_t* memory) {
        if (!source_.is_wide) {
            gather_rows<Tile, ROWS, WIDTH, THREADS>(memory, source_);
            source_ = source_.from(ROWS);
            return;
        }
#pragma unroll
        for (int n = 0; n < PER_THREAD; ++n) {
            const int i = thread_index() + n * THREADS;
            if (i >= ROWS * CHUNKS) continue;
            *reinterpret_cast<Chunk*>(
                memory + Tile::template place<WIDTH>(i / CHUNKS, i % CHUNKS)) = held_[n];
        }
    }

private:
    RowSource source_;
    Chunk held_[PER_THREAD];
};

// The same with rows and columns exchanged: four keys of a column lie together.
template <class Tile, int KEYS, int WIDTH, int THREADS>
struct ValueStage {
    static constexpr int CHUNKS = WIDTH / 8;
    static constexpr int UNITS = KEYS / 4 * CHUNKS;  // of 4 keys by 8 columns
    static constexpr int SHARED_ELEMENTS = WIDTH * (KEYS + 8);
    static constexpr int PER_THREAD = (UNITS + THREADS - 1) / THREADS;

    RAGGEDDNN_DEVICE ValueStage(const RowSource& source, int64_t first_key)
        : source_(source.from(first_key)) {}

    RAGGEDDNN_DEVICE void begin(uint16_t*) {
        if (!source_.is_wide) return;
#pragma unroll
        for (int n = 0; n < PER_THREAD; ++n) {
            const int i = thread_index() + n * THREADS;
            if (i >= UNITS) continue;
#pragma unroll
            for (int key = 0; key < 4; ++key) {
                held_[n][key] = source_.chunk(4 * (i / CHUNKS) + key, 8 * (i % CHUNKS));
            }
        }
        source_ = source_.from(KEYS);
    }
    template <int PENDING>
    RAGGEDDNN_DEVICE void finish(uint16_t* memory) {
        if (!source_.is_wide) {
            gather(memory, source_);
            source_ = source_.from(KEYS);
            return;
        }
#pragma unroll
        for (int n = 0; n < PER_THREAD; ++n) {
            const int i = thread_index() + n * THREADS;
            if (i >= UNITS) continue;
#pragma unroll
            for (int column = 0; column < 8; ++column) {
                uint32_t pairs[2];
                for (int p = 0; p < 2; ++p) {
                    pairs[p] = held_[n][2 * p].e[column] |
                               static_cast<uint32_t>(held_[n][2 * p + 1].e[column]) << 16;
                }
                uint16_t* to = memory + Tile::template place<KEYS>(8 * (i % CHUNKS) + column, 0) +
                               4 * (i / CHUNKS);
                __builtin_memcpy(__builtin_assume_aligned(to, 8), pairs, sizeof(pairs));
            }
        }
    }

private:
    RAGGEDDNN_COLD static void gather(uint16_t* memory, RowSource source) {
#pragma unroll 1
        for (int i = thread_index(); i < KEYS * WIDTH; i += THREADS) {
            const int key = i / WIDTH;
            const int column = i % WIDTH;
            memory[Tile::template place<KEYS>(column, 0) + key] = source.element(key, column);
        }
    }

    RowSource source_;
    Chunk held_[PER_THREAD][4];
};

}  // namespace raggeddnn::hip
