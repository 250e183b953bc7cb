// Results on their way to device memory: from a wave's registers to shared memory, and from there
// in whole rows, so that stores are wide and next to each other.
#pragma once

#include "element.hpp"
#include "gpu.hpp"

namespace raggeddnn::hip {

// A tile's rows of an output.
struct RowTarget {
    uint16_t* data;      // the tile's first row
    int64_t row_stride;  // elements
    int rows;            // that are written
    int valid;           // beyond are zeros
    int width;
    bool is_wide;  // rows are aligned to chunks, and their width is a multiple of one
};

// Rows whose factor is 0 become 0, whatever they are.
template <class Tile, int PARTS, int COLUMN_TILES>
RAGGEDDNN_DEVICE void clear_rows_of_nothing(typename Tile::Accumulator (&sum)[PARTS][COLUMN_TILES],
                                            const float (&factor)[PARTS][Tile::STATS]) {
    bool has_nothing = false;
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
#pragma unroll
        for (int stat = 0; stat < Tile::STATS; ++stat) has_nothing |= factor[part][stat] == 0;
    }
    if (!any_lane(has_nothing)) return;
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
#pragma unroll
        for (int c = 0; c < COLUMN_TILES; ++c) {
#pragma unroll
            for (int i = 0; i < Tile::VALUES; ++i) {
                if (factor[part][Tile::stat_of(i)] == 0) sum[part][c].x[i] = 0;
            }
        }
    }
}

// One tile of keep_results(), where the tile has no instruction for it.
template <class Tile, class Rows>
RAGGEDDNN_DEVICE void keep_tile(uint16_t* memory, int first_row, int column_tile, int lane,
                                const float (&sum)[Tile::VALUES],
                                const float (&factor)[Tile::STATS]) {
    using Element = typename Tile::Element;
#pragma unroll
    for (int i = 0; i < Tile::VALUES; i += Tile::ADJACENT) {
        const int stat = Tile::stat_of(i);
        const int row = first_row + Tile::row_of_stat(lane, stat);
        const int column = 16 * column_tile + Tile::column_of(lane, i);
        const float by = factor[stat];
        uint16_t* to = memory + Tile::template place<Rows>(row, column / 8) + column % 8;
        if constexpr (Tile::ADJACENT == 2) {  // a word, of which the compiler makes no halves
            *reinterpret_cast<uint32_t*>(to) = pack<Element>(sum[i] * by, sum[i + 1] * by);
        } else {
            Elements<Tile::ADJACENT> made;
#pragma unroll
            for (int n = 0; n < Tile::ADJACENT; ++n)
                made.e[n] = Element::from_float(sum[i + n] * by);
            *reinterpret_cast<Elements<Tile::ADJACENT>*>(to) = made;
        }
    }
}

// sum * factor, rounded, to the wave's rows in `memory`, which holds a `Rows`.
template <class Tile, class Rows, int PARTS, int COLUMN_TILES>
RAGGEDDNN_DEVICE void keep_results(uint16_t* memory, int wave_row, int lane,
                                   const typename Tile::Accumulator (&sum)[PARTS][COLUMN_TILES],
                                   const float (&factor)[PARTS][Tile::STATS]) {
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
#pragma unroll
        for (int c = 0; c < COLUMN_TILES; ++c) {
            if constexpr (requires { Tile::KEEPS_TILES; }) {
                Tile::template keep_tile<Rows>(memory, wave_row + 16 * part, c, lane,
                                               sum[part][c].x, factor[part]);
            } else {
                keep_tile<Tile, Rows>(memory, wave_row + 16 * part, c, lane, sum[part][c].x,
                                      factor[part]);
            }
        }
    }
}

// Element by element, where no wide store can write the rows: slow, and out of the way.
template <class Tile, class Rows, int THREADS>
RAGGEDDNN_COLD void write_elements(const uint16_t* memory, RowTarget target) {
#pragma unroll 1
    for (int i = thread_index(); i < Rows::ROWS * Rows::WIDTH; i += THREADS) {
        const int row = i / Rows::WIDTH;
        const int column = i % Rows::WIDTH;
        if (row >= target.rows || column >= target.width) continue;
        const uint16_t x = memory[Tile::template place<Rows>(row, column / 8) + column % 8];
        store(target.data + row * target.row_stride + column, row < target.valid ? x : uint16_t{0});
    }
}

// Whether rows that are a multiple of eight apart differ in their place by a constant a row.
template <class Tile, class Rows>
inline constexpr bool HAS_PITCH = requires { Tile::template pitch<Rows>(); };

// A chunk of results, or of zeros.
RAGGEDDNN_DEVICE inline void write_chunk(const uint16_t* from, bool is_valid, bool is_written,
                                         uint16_t* to) {
    ChunkWords words{};
    if (is_valid) words = *reinterpret_cast<const ChunkWords*>(from);
    if (is_written) store(reinterpret_cast<ChunkWords*>(to), words);
}

// ROWS rows from `first_row` on, which are wide, by `THREADS` threads, of which this is number
// `thread` and which have met since the results were kept.
template <class Tile, class Rows, int ROWS, int THREADS>
RAGGEDDNN_DEVICE void write_wide_rows(const uint16_t* memory, int first_row, int thread,
                                      const RowTarget& target) {
    if constexpr (THREADS % Rows::CHUNKS == 0) {
        const int row = first_row + thread / Rows::CHUNKS;
        const int column = 8 * (thread % Rows::CHUNKS);
        constexpr int PASS = THREADS / Rows::CHUNKS;  // rows at a time
        const int rows = column < target.width ? target.rows - row : 0;
        const int valid = target.valid - row;
        uint16_t* to = target.data + row * target.row_stride + column;
#pragma unroll
        for (int n = 0; n < ROWS; n += PASS) {
            int at = 0;
            if constexpr (HAS_PITCH<Tile, Rows> && PASS % 8 == 0) {
                at = Tile::template place<Rows>(row, column / 8) + n * Tile::template pitch<Rows>();
            } else if constexpr (requires { Tile::moved_rows(0, 0); }) {
                at = Tile::moved_rows(Tile::template place<Rows>(row, column / 8), n);
            } else {
                at = Tile::template place<Rows>(row + n, column / 8);
            }
            write_chunk(memory + at, n < valid, n < rows, to);
            to += PASS * target.row_stride;
        }
    } else {
#pragma unroll 4
        for (int i = thread; i < ROWS * Rows::CHUNKS; i += THREADS) {
            const int r = first_row + i / Rows::CHUNKS;
            const int c = 8 * (i % Rows::CHUNKS);
            write_chunk(memory + Tile::template place<Rows>(r, c / 8), r < target.valid,
                        r < target.rows && c < target.width,
                        target.data + r * target.row_stride + c);
        }
    }
}

// The same factor for all rows.
template <class Tile, int PARTS>
struct RowFactors {
    RAGGEDDNN_DEVICE explicit RowFactors(float factor) {
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
#pragma unroll
            for (int stat = 0; stat < Tile::STATS; ++stat) of[part][stat] = factor;
        }
    }
    float of[PARTS][Tile::STATS];
};

// A tile's results, by way of `memory`, which waves may be reading when they come here. It is read
// when they leave, too: who writes there next needs a barrier before. The factor of a row that is
// nothing is 0, whatever its sum.
template <class Tile, class Rows, int THREADS, int PARTS, int COLUMN_TILES>
RAGGEDDNN_DEVICE void write_tile(uint16_t* memory, int wave_row, int lane,
                                 typename Tile::Accumulator (&sum)[PARTS][COLUMN_TILES],
                                 const float (&factor)[PARTS][Tile::STATS],
                                 const RowTarget& target) {
    clear_rows_of_nothing<Tile>(sum, factor);
    block_barrier();
    keep_results<Tile, Rows>(memory, wave_row, lane, sum, factor);
    if constexpr (requires { Tile::KEEPS_TILES; }) {
        if (target.is_wide) {
            Tile::meet();
            write_wide_rows<Tile, Rows, 16 * PARTS, Tile::WAVE>(memory, wave_row, lane, target);
            return;
        }
    }
    block_barrier();
    if (target.is_wide) {
        write_wide_rows<Tile, Rows, Rows::ROWS, THREADS>(memory, 0, renewed_thread_index(), target);
    } else {
        write_elements<Tile, Rows, THREADS>(memory, target);
    }
}

}  // namespace raggeddnn::hip
