// How outputs lie when their author does not say. Wrong shapes pass: the checks name them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "raggeddnn/schema/graph_generated.h"

namespace raggeddnn::graph_ops {

inline std::vector<int64_t> packed_strides(const std::vector<int64_t>& dims) {
    std::vector<int64_t> strides(dims.size(), 1);
    for (size_t i = dims.size(); i-- > 1;) {
        const auto step = static_cast<uint64_t>(strides[i]);  // wraps; too large is refused later
        strides[i - 1] =
            static_cast<int64_t>(step * static_cast<uint64_t>(std::max<int64_t>(dims[i], 1)));
    }
    return strides;
}

inline void infer_packed(schema::TensorAttributesT& output, std::vector<int64_t> dims) {
    if (output.dims.empty()) output.dims = std::move(dims);
    if (!output.strides.empty()) return;
    output.strides = packed_strides(output.dims);
    if (output.ragged_offset_tensor_uid && output.dims.size() == 4) {  // rows outermost in a batch
        const int64_t width = output.dims[3];
        const int64_t row = output.dims[1] * width;
        output.strides = {output.dims[2] * row, width, row, 1};
    }
}

// As `like` does, its ragged offset included, unless the author gave strides or other dims.
inline void infer_like(schema::TensorAttributesT& output, const schema::TensorAttributesT& like) {
    if (output.dims.empty()) output.dims = like.dims;
    if (output.strides.empty() && output.dims == like.dims) {
        const bool may_write =
            std::find(like.strides.begin(), like.strides.end(), 0) == like.strides.end();
        if (like.ragged_offset_tensor_uid && !output.ragged_offset_tensor_uid) {
            output.ragged_offset_tensor_uid = like.ragged_offset_tensor_uid;
            output.ragged_offset_multiplier = like.ragged_offset_multiplier;
        }
        if (may_write) output.strides = like.strides;
    }
    infer_packed(output, output.dims);
}

// Right-aligned; where dims contradict each other, the first.
inline std::vector<int64_t> broadcast_dims(
    std::initializer_list<const std::vector<int64_t>*> operands) {
    std::vector<int64_t> dims;
    for (const std::vector<int64_t>* operand : operands) {
        if (operand->size() > dims.size()) {
            dims.insert(dims.begin(), operand->size() - dims.size(), 1);
        }
        const size_t shift = dims.size() - operand->size();
        for (size_t i = 0; i < operand->size(); ++i) {
            if (dims[shift + i] == 1) dims[shift + i] = (*operand)[i];
        }
    }
    return dims;
}

}  // namespace raggeddnn::graph_ops
