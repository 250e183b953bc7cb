// One head's rows of a tensor, as stages read them and as results are written.
#pragma once

#include "../tile/results.hpp"
#include "../tile/stage.hpp"
#include "params.hpp"

namespace raggeddnn::hip {

RAGGEDDNN_DEVICE inline bool is_wide(const uint16_t* data, int64_t row_stride, int width) {
    return reinterpret_cast<uintptr_t>(data) % 16 == 0 && row_stride % 8 == 0 && width % 8 == 0;
}

// `base`: the batch's first element, head 0.
RAGGEDDNN_DEVICE inline RowSource source_of(const RowTensor& tensor, int64_t base, int64_t head,
                                            int64_t rows, int width) {
    const uint16_t* data =
        static_cast<const uint16_t*>(tensor.data) + base + head * tensor.head_stride;
    return {data, tensor.row_stride, static_cast<int>(rows), width,
            is_wide(data, tensor.row_stride, width)};
}

struct RowCounts {
    int64_t written;
    int64_t valid;
};

// Of the tile whose first row is `row`.
RAGGEDDNN_DEVICE inline RowTarget target_of(const RowTensor& tensor, int64_t base, int64_t head,
                                            int64_t row, const RowCounts& counts, int width) {
    uint16_t* data = static_cast<uint16_t*>(tensor.data) + base + head * tensor.head_stride +
                     row * tensor.row_stride;
    const auto left = [row](int64_t count) {
        return static_cast<int>(count > row ? count - row : 0);
    };
    return {data,
            tensor.row_stride,
            left(counts.written),
            left(counts.valid),
            width,
            is_wide(data, tensor.row_stride, width)};
}

}  // namespace raggeddnn::hip
