// Rows of one head as a stage reads them.
#pragma once

#include <cstdint>

#include "element.hpp"

namespace raggeddnn::hip {

struct RowSource {
    const uint16_t* data;  // the head's first row
    int64_t row_stride;    // elements
    int rows;              // beyond are zeros
    int width;             // beyond are zeros
    bool is_wide;          // rows are aligned to chunks, and their width is a multiple of one

    // Without its first rows.
    RAGGEDDNN_DEVICE RowSource from(int64_t first) const {
        const int64_t left = rows - first;
        return {data + first * row_stride, row_stride, static_cast<int>(left < 0 ? 0 : left), width,
                is_wide};
    }
    RAGGEDDNN_DEVICE bool has(int row, int column) const { return row < rows && column < width; }
    RAGGEDDNN_DEVICE const uint16_t* at(int row, int column) const {
        return data + row * row_stride + column;
    }
    RAGGEDDNN_DEVICE uint16_t element(int row, int column) const {
        return has(row, column) ? *at(row, column) : uint16_t{0};
    }
    RAGGEDDNN_DEVICE Chunk chunk(int row, int column) const {
        if (!has(row, column)) return Chunk{};
        return *reinterpret_cast<const Chunk*>(at(row, column));
    }
};

}  // namespace raggeddnn::hip
