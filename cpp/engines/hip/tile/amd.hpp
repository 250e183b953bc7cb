// The matrix units of AMD GPUs: MFMA of CDNA, WMMA of RDNA 3 and 4. All compute the transposed
// product, keys by queries and then columns by queries: a lane then holds parts of one query only,
// and the weights leave the first product as the second one takes them (RDNA 3 excepted).
#pragma once

#include "amd_isa.hpp"
#include "element.hpp"

namespace raggeddnn::hip {

template <int WORDS>
struct Words {
    uint32_t r[WORDS];
};

// What the three share. LDS rows are padded by one chunk against bank conflicts. Places are sums of
// a lane's part, which takes one register, and of one that is known when compiling.
// STEP_: of the width, for one product; OPERAND, VALUE: words of a lane's rows and columns, and of
// its weights and values. Eight words hold all 16 elements; fewer are those of the lane's group.
template <class Element_, int STEP_, int OPERAND, int VALUE>
struct AmdTile {
    static constexpr int BACKWARD_STEPS = 16;  // of a product at once, beside the sums
    using Element = Element_;
    static constexpr int STATS = 1;
    static constexpr int STEP = STEP_;
    using RowOperand = Words<OPERAND>;
    using ColumnOperand = Words<OPERAND>;
    using WeightOperand = Words<VALUE>;
    using ValueOperand = Words<VALUE>;

    RAGGEDDNN_DEVICE static int stat_of(int) { return 0; }
    RAGGEDDNN_DEVICE static int row_of_stat(int lane, int) { return lane & 15; }

    template <class Block>
    RAGGEDDNN_DEVICE static int place(int row, int chunk) {
        return row * (Block::WIDTH + 8) + 8 * chunk;
    }
    // Of a column's first row, where the block is stored with rows and columns exchanged.
    template <class Block>
    RAGGEDDNN_DEVICE static int place_of_column(int column) {
        return column * (Block::ROWS + 8);
    }

    // What stages wrote is what products read.
    RAGGEDDNN_DEVICE static void show_to_products() {}

    template <class Block>
    RAGGEDDNN_DEVICE static RowOperand load_row(const uint16_t* memory, int row, int step,
                                                int lane) {
        return load<OPERAND>(memory + place<Block>(lane & 15, OPERAND == 8 ? 0 : lane >> 4) +
                             place<Block>(row, STEP / 8 * step));
    }
    template <class Block>
    RAGGEDDNN_DEVICE static ColumnOperand load_column(const uint16_t* memory, int row, int step,
                                                      int lane) {
        return load_row<Block>(memory, row, step, lane);
    }
    template <class Block>
    RAGGEDDNN_DEVICE static ValueOperand load_value(const uint16_t* memory, int key, int column,
                                                    int lane) {
        return load<VALUE>(memory + place_of_column<Block>(lane & 15) +
                           (VALUE == 8 ? 0 : 2 * VALUE * (lane >> 4)) +
                           place_of_column<Block>(column) + key);
    }

private:
    template <int WORDS>
    RAGGEDDNN_DEVICE static Words<WORDS> load(const uint16_t* from) {
        Words<WORDS> loaded;
        __builtin_memcpy(&loaded, __builtin_assume_aligned(from, WORDS < 4 ? 4 * WORDS : 16),
                         sizeof(loaded));
        return loaded;
    }
};

// A product of rows is two instructions: the order of the sum does not matter.
template <class Element>
struct CdnaTile : AmdTile<Element, 32, 4, 2> {
    using Base = AmdTile<Element, 32, 4, 2>;
    using typename Base::ColumnOperand;
    using typename Base::RowOperand;
    using typename Base::ValueOperand;
    using typename Base::WeightOperand;
    static constexpr int WAVE = 64;
    static constexpr int VALUES = 4;
    static constexpr int ADJACENT = 4;        // values in columns next to each other
    static constexpr bool KEEPS_ROWS = true;  // in registers, of which there are 512
    struct Accumulator {
        float x[VALUES];
    };

    RAGGEDDNN_DEVICE static int column_of(int lane, int i) { return 4 * (lane >> 4) + i; }

    RAGGEDDNN_DEVICE static void multiply_row(const RowOperand& row, const ColumnOperand& column,
                                              Accumulator& sum) {
        mfma_16x16x16<Element>(sum.x, column.r, row.r);
        mfma_16x16x16<Element>(sum.x, column.r + 2, row.r + 2);
    }
    RAGGEDDNN_DEVICE static WeightOperand weights(const Accumulator& p, int) {
        return {{pack<Element>(p.x[0], p.x[1]), pack<Element>(p.x[2], p.x[3])}};
    }
    RAGGEDDNN_DEVICE static void multiply_weight(const WeightOperand& weights,
                                                 const ValueOperand& value, Accumulator& sum) {
        mfma_16x16x16<Element>(sum.x, value.r, weights.r);
    }
    RAGGEDDNN_DEVICE static float row_max(float x) {
        x = larger(x, shuffle_xor(x, 16));
        return larger(x, shuffle_xor(x, 32));
    }
    RAGGEDDNN_DEVICE static float row_sum(float x) {
        x += shuffle_xor(x, 16);
        return x + shuffle_xor(x, 32);
    }
};

// Both generations of WMMA: 32 lanes, 8 values of a tile each.
template <class Element, int OPERAND>
struct RdnaTile : AmdTile<Element, 16, OPERAND, OPERAND> {
    static constexpr int WAVE = 32;
    static constexpr int VALUES = 8;
    static constexpr bool KEEPS_ROWS = false;  // 256 registers are few
    struct Accumulator {
        float x[VALUES];
    };

    RAGGEDDNN_DEVICE static float row_max(float x) { return larger(x, shuffle_xor(x, 16)); }
    RAGGEDDNN_DEVICE static float row_sum(float x) { return x + shuffle_xor(x, 16); }
};

template <class Element>
struct Rdna3Tile : RdnaTile<Element, 8> {
    using Base = RdnaTile<Element, 8>;
    static constexpr int ADJACENT = 1;
    static constexpr int BACKWARD_STEPS = 2;
    using typename Base::Accumulator;
    using typename Base::ColumnOperand;
    using typename Base::RowOperand;
    using typename Base::ValueOperand;
    using typename Base::WeightOperand;

    RAGGEDDNN_DEVICE static int column_of(int lane, int i) { return 2 * i + (lane >> 4); }

    RAGGEDDNN_DEVICE static void multiply_row(const RowOperand& row, const ColumnOperand& column,
                                              Accumulator& sum) {
        wmma_rdna3<Element>(sum.x, column.r, row.r);
    }
    // Even keys are in one half of the wave, odd ones in the other; the operand wants both in each.
    RAGGEDDNN_DEVICE static WeightOperand weights(const Accumulator& p, int lane) {
        WeightOperand made;
        for (int i = 0; i < 8; ++i) {
            const float other = shuffle_xor(p.x[i], 16);
            made.r[i] = lane < 16 ? pack<Element>(p.x[i], other) : pack<Element>(other, p.x[i]);
        }
        return made;
    }
    RAGGEDDNN_DEVICE static void multiply_weight(const WeightOperand& weights,
                                                 const ValueOperand& value, Accumulator& sum) {
        wmma_rdna3<Element>(sum.x, value.r, weights.r);
    }
};

template <class Element>
struct Rdna4Tile : RdnaTile<Element, 4> {
    using Base = RdnaTile<Element, 4>;
    static constexpr int ADJACENT = 8;
    using typename Base::Accumulator;
    using typename Base::ColumnOperand;
    using typename Base::RowOperand;
    using typename Base::ValueOperand;
    using typename Base::WeightOperand;

    RAGGEDDNN_DEVICE static int column_of(int lane, int i) { return 8 * (lane >> 4) + i; }

    RAGGEDDNN_DEVICE static void multiply_row(const RowOperand& row, const ColumnOperand& column,
                                              Accumulator& sum) {
        wmma_rdna4<Element>(sum.x, column.r, row.r);
    }
    RAGGEDDNN_DEVICE static WeightOperand weights(const Accumulator& p, int) {
        WeightOperand made;
        for (int i = 0; i < 4; ++i) made.r[i] = pack<Element>(p.x[2 * i], p.x[2 * i + 1]);
        return made;
    }
    RAGGEDDNN_DEVICE static void multiply_weight(const WeightOperand& weights,
                                                 const ValueOperand& value, Accumulator& sum) {
        wmma_rdna4<Element>(sum.x, value.r, weights.r);
    }
};

}  // namespace raggeddnn::hip
