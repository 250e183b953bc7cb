// Rows of one head as a stage reads them, and blocks of them as it leaves them.
#pragma once

#include <cstdint>

#include "element.hpp"
#include "gpu.hpp"

namespace raggeddnn::hip {

// Rows in shared memory; how they lie is the tile's business.
template <int ROWS_, int WIDTH_>
struct Block {
    static constexpr int ROWS = ROWS_;
    static constexpr int WIDTH = WIDTH_;
    static constexpr int CHUNKS = WIDTH / 8;
};

struct RowSource {
    const uint16_t* data;  // the head's first row
    int64_t row_stride;    // elements
    int rows;              // beyond are zeros
    int width;             // beyond are zeros
    bool is_wide;          // rows are aligned to chunks, and their width is a multiple of one

    // Without its first rows.
    template <class Row>
    RAGGEDDNN_DEVICE RowSource from(Row first) const {
        const auto left = rows - first;
        return {data + first * row_stride, row_stride, static_cast<int>(left < 0 ? 0 : left), width,
                is_wide};
    }
    RAGGEDDNN_DEVICE bool has(int row, int column) const { return row < rows && column < width; }
    // Of a chunk, in the width.
    RAGGEDDNN_DEVICE int columns_from(int column) const {
        const int left = width - column;
        return left < 0 ? 0 : left < 8 ? left : 8;
    }
    RAGGEDDNN_DEVICE const uint16_t* at(int row, int column) const {
        return data + row * row_stride + column;
    }
    RAGGEDDNN_DEVICE uint16_t element(int row, int column) const {
        return has(row, column) ? *at(row, column) : uint16_t{0};
    }
    RAGGEDDNN_DEVICE ChunkWords words(int row, int column) const {
        if (!has(row, column)) return ChunkWords{};
        return load(reinterpret_cast<const ChunkWords*>(at(row, column)));
    }
};

// The blocks that the stages began last are in shared memory, for every thread of the block of
// threads; `PENDING` blocks of other stages, begun after these, need not be. What was there before
// must not be needed any more, but by products not finished.
template <class Tile, int PENDING = 0, class Stage, class... Stages>
RAGGEDDNN_DEVICE void arrive(Stage& stage, Stages&... stages) {
    if constexpr (Stage::WRITES_AT_FINISH) block_barrier();
    stage.template finish<PENDING>();
    (stages.template finish<PENDING>(), ...);
    Tile::show_to_products();
    block_barrier();
}

}  // namespace raggeddnn::hip
