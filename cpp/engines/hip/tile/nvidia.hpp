// The matrix units of NVIDIA GPUs from compute capability 8.0 on: mma.sync m16n8k16, fed by
// ldmatrix from shared memory that asynchronous copies fill. (PTX ISA, "Warp Level Matrix
// Instructions" and "Asynchronous copy".)
//
// A tile of 16 rows by 16 columns is two instructions wide; lane = 4 * g + t holds rows g and
// g + 8, and of each of the two column halves the columns 2t and 2t + 1.
#pragma once

#include "element.hpp"
#include "nvidia_ptx.hpp"

namespace raggeddnn::hip {

// Of a row in shared memory: panels of 64 columns, of which the last need not be full.
inline constexpr int PANEL = 64;
template <class Block>
inline constexpr int PANELS = (Block::WIDTH + PANEL - 1) / PANEL;
template <class Block>
inline constexpr int STORED_WIDTH = PANELS<Block> * PANEL;

template <class Element_>
struct NvidiaTile {
    using Element = Element_;
    static constexpr int WAVE = 32;
    static constexpr int VALUES = 8;           // of a 16 x 16 tile, per lane
    static constexpr int STATS = 2;            // rows of such a tile that a lane has a part of
    static constexpr int ADJACENT = 2;         // values in columns next to each other
    static constexpr int BACKWARD_STEPS = 16;  // of a product at once, beside the sums
    static constexpr int STEP = 16;            // of the width, for one product of queries and keys
    static constexpr bool KEEPS_ROWS = false;  // in registers: read again from shared memory

    struct Operand {
        uint32_t r[4];
    };
    using RowOperand = Operand;
    using ColumnOperand = Operand;
    using WeightOperand = Operand;
    using ValueOperand = Operand;
    struct Accumulator {
        float x[VALUES];
    };

    RAGGEDDNN_DEVICE static int stat_of(int i) { return (i >> 1) & 1; }
    RAGGEDDNN_DEVICE static int row_of_stat(int lane, int stat) { return (lane >> 2) + 8 * stat; }
    RAGGEDDNN_DEVICE static int column_of(int lane, int i) {
        return 8 * (i >> 2) + 2 * (lane & 3) + (i & 1);
    }

    // Shared memory: rows of elements in chunks of 8; a chunk's place depends on its row, so
    // that the eight rows of a matrix lie in different banks (8 chunks of 16 bytes are all of
    // them).
    template <class Block>
    RAGGEDDNN_DEVICE static int place(int row, int chunk) {
        return row * STORED_WIDTH<Block> + 8 * (chunk ^ (row & 7));
    }
    // Between rows that are a multiple of eight apart, for each row.
    template <class Block>
    RAGGEDDNN_DEVICE static constexpr int pitch() {
        return STORED_WIDTH<Block>;
    }
    // Between a chunk and the one 64 columns on.
    template <class Block>
    RAGGEDDNN_DEVICE static constexpr int panel_pitch() {
        return PANEL;
    }
    // What stages wrote is what products read.
    RAGGEDDNN_DEVICE static void show_to_products() {}

    template <class Block>
    RAGGEDDNN_DEVICE static Operand load_row(const uint16_t* memory, int row, int step, int lane) {
        return ldmatrix<false>(memory,
                               row * STORED_WIDTH<Block> + part<Block>(lane & 15, lane >> 4, step));
    }
    template <class Block>
    RAGGEDDNN_DEVICE static Operand load_column(const uint16_t* memory, int column, int step,
                                                int lane) {
        const int row = (lane & 7) + 8 * (lane >> 4);
        return ldmatrix<false>(
            memory, column * STORED_WIDTH<Block> + part<Block>(row, (lane >> 3) & 1, step));
    }
    // Values of 16 keys by 16 columns.
    template <class Block>
    RAGGEDDNN_DEVICE static Operand load_value(const uint16_t* memory, int key, int column,
                                               int lane) {
        return ldmatrix<true>(
            memory, key * STORED_WIDTH<Block> + part<Block>(lane & 15, lane >> 4, column / 16));
    }

    RAGGEDDNN_DEVICE static void multiply(const Operand& rows, const Operand& columns,
                                          Accumulator& sum) {
        mma_16816<Element>(sum.x, rows.r, columns.r);
        mma_16816<Element>(sum.x + 4, rows.r, columns.r + 2);
    }
    RAGGEDDNN_DEVICE static void multiply_row(const Operand& rows, const Operand& columns,
                                              Accumulator& sum) {
        multiply(rows, columns, sum);
    }
    RAGGEDDNN_DEVICE static void multiply_weight(const Operand& weights, const Operand& values,
                                                 Accumulator& sum) {
        multiply(weights, values, sum);
    }

    // Results of one product as the rows of the next: the layouts agree.
    RAGGEDDNN_DEVICE static Operand weights(const Accumulator& p, int) {
        return {{pack<Element>(p.x[0], p.x[1]), pack<Element>(p.x[2], p.x[3]),
                 pack<Element>(p.x[4], p.x[5]), pack<Element>(p.x[6], p.x[7])}};
    }

    // Over the lanes that share a row.
    RAGGEDDNN_DEVICE static float row_max(float x) {
        x = larger(x, shuffle_xor(x, 1));
        return larger(x, shuffle_xor(x, 2));
    }
    RAGGEDDNN_DEVICE static float row_sum(float x) {
        x += shuffle_xor(x, 1);
        return x + shuffle_xor(x, 2);
    }

private:
    // place() of chunk 2 * pair + half in a row of a group of 16: all that depends on the lane is
    // the same for every pair.
    template <class Block>
    RAGGEDDNN_DEVICE static int part(int row, int half, int pair) {
        return row * STORED_WIDTH<Block> + 8 * ((2 * pair) ^ (half ^ (row & 7)));
    }
    template <bool IS_TRANSPOSED>
    RAGGEDDNN_DEVICE static Operand ldmatrix(const uint16_t* memory, int row) {
        Operand loaded;
        ldmatrix_x4<IS_TRANSPOSED>(loaded.r, memory, row);
        return loaded;
    }
};

}  // namespace raggeddnn::hip
