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

template <class Tile>
RAGGEDDNN_DEVICE Elements<Tile::ADJACENT> rounded(const float* sums, float by) {
    using Element = typename Tile::Element;
    Elements<Tile::ADJACENT> made;
    if constexpr (Tile::ADJACENT == 2) {
        made = __builtin_bit_cast(Elements<2>, pack<Element>(sums[0] * by, sums[1] * by));
    } else {
#pragma unroll
        for (int n = 0; n < Tile::ADJACENT; ++n) made.e[n] = Element::from_float(sums[n] * by);
    }
    return made;
}

// sum * factor, rounded, to the wave's rows in `memory`, which holds a `Rows`. The factor of a row
// that is nothing is 0, whatever its sum.
template <class Tile, class Rows, int PARTS, int COLUMN_TILES>
RAGGEDDNN_DEVICE void keep_results(uint16_t* memory, int wave_row, int lane,
                                   const typename Tile::Accumulator (&sum)[PARTS][COLUMN_TILES],
                                   const float (&factor)[PARTS][Tile::STATS]) {
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
#pragma unroll
        for (int c = 0; c < COLUMN_TILES; ++c) {
#pragma unroll
            for (int i = 0; i < Tile::VALUES; i += Tile::ADJACENT) {
                const int stat = Tile::stat_of(i);
                const int row = wave_row + 16 * part + Tile::row_of_stat(lane, stat);
                const int column = 16 * c + Tile::column_of(lane, i);
                uint16_t* to = memory + Tile::template place<Rows>(row, column / 8) + column % 8;
                const float by = factor[part][stat];
                Elements<Tile::ADJACENT> made = rounded<Tile>(&sum[part][c].x[i], by);
                if (by == 0) made = {};
                *reinterpret_cast<Elements<Tile::ADJACENT>*>(to) = made;
            }
        }
    }
}

// By `THREADS` threads, which have met at a barrier since the results were kept.
template <class Tile, class Rows, int THREADS>
RAGGEDDNN_DEVICE void write_results(const uint16_t* memory, const RowTarget& target) {
#pragma unroll 4
    for (int i = renewed_thread_index(); i < Rows::ROWS * Rows::CHUNKS; i += THREADS) {
        const int row = i / Rows::CHUNKS;
        const int column = 8 * (i % Rows::CHUNKS);
        if (row >= target.rows || column >= target.width) continue;
        struct alignas(16) Words {
            uint32_t w[4];
        };
        const uint16_t* from = memory + Tile::template place<Rows>(row, column / 8);
        const uint32_t kept = row < target.valid ? ~0U : 0U;
        uint16_t* to = target.data + row * target.row_stride + column;
        if (target.is_wide) {
            Words words = *reinterpret_cast<const Words*>(from);
#pragma unroll
            for (uint32_t& word : words.w) word &= kept;
            store(reinterpret_cast<Words*>(to), words);
        } else {
            for (int n = 0; n < 8 && column + n < target.width; ++n) {
                store(to + n, static_cast<uint16_t>(from[n] & kept));
            }
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

// A tile's results, by way of `memory`, which waves may be reading when they come here.
template <class Tile, class Rows, int THREADS, int PARTS, int COLUMN_TILES>
RAGGEDDNN_DEVICE void write_tile(uint16_t* memory, int wave_row, int lane,
                                 const typename Tile::Accumulator (&sum)[PARTS][COLUMN_TILES],
                                 const float (&factor)[PARTS][Tile::STATS],
                                 const RowTarget& target) {
    block_barrier();
    keep_results<Tile, Rows>(memory, wave_row, lane, sum, factor);
    block_barrier();
    write_results<Tile, Rows, THREADS>(memory, target);
}

}  // namespace raggeddnn::hip
