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

// A head's rows from one of them on.
template <class Element>
struct alignas(16) FoundRows {
    Element* data;
    int32_t valid;
    int32_t written;
    bool is_wide;  // of elements that stages read
};

// `base`: the batch's first element, head 0.
template <class Element>
RAGGEDDNN_DEVICE FoundRows<Element> rows_of(const RowTensor& tensor, int64_t base, int32_t head,
                                            int64_t row, const RowCounts& counts, int width) {
    auto* data = static_cast<Element*>(tensor.data) + base +
                 static_cast<uint32_t>(head) * tensor.head_stride + row * tensor.row_stride;
    const auto left = [row](int64_t count) {
        return static_cast<int32_t>(count > row ? count - row : 0);
    };
    bool is_aligned = false;
    if constexpr (sizeof(Element) == 2) is_aligned = is_wide(data, tensor.row_stride, width);
    return {data, left(counts.valid), left(counts.written), is_aligned};
}
RAGGEDDNN_DEVICE inline RowSource source_of(const RowTensor& tensor,
                                            const FoundRows<uint16_t>& found, int width) {
    return {found.data, tensor.row_stride, found.valid, width, found.is_wide};
}
RAGGEDDNN_DEVICE inline RowTarget target_of(const RowTensor& tensor,
                                            const FoundRows<uint16_t>& found, int width) {
    return {found.data, tensor.row_stride, found.written, found.valid, width, found.is_wide};
}
// Of the tile whose first row is `row`.
RAGGEDDNN_DEVICE inline RowTarget target_of(const RowTensor& tensor, int64_t base, int32_t head,
                                            int64_t row, const RowCounts& counts, int width) {
    return target_of(tensor, rows_of<uint16_t>(tensor, base, head, row, counts, width), width);
}

}  // namespace raggeddnn::hip
