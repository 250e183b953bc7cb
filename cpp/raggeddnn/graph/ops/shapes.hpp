// How outputs lie when their author does not say. Wrong shapes pass: the checks name them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/schema/graph_generated.h"

namespace raggeddnn::graph_ops {

// Without gaps: row-major, or, of a ragged [B, H, S, D], rows outermost within a batch, the only
// order that ragged memory allows.
inline std::vector<int64_t> packed_strides(const std::vector<int64_t>& dims, bool is_ragged) {
    const auto product = [](int64_t a, int64_t b) {  // wraps; too large is refused later
        return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    };
    if (is_ragged && dims.size() == 4) {
        const int64_t row = product(dims[1], dims[3]);
        return {product(dims[2], row), dims[3], row, 1};
    }
    std::vector<int64_t> strides(dims.size(), 1);
    for (size_t i = dims.size(); i-- > 1;) {
        strides[i - 1] = product(strides[i], std::max<int64_t>(dims[i], 1));
    }
    return strides;
}

inline void infer_packed(schema::TensorAttributesT& output, std::vector<int64_t> dims) {
    if (output.dims.empty()) output.dims = std::move(dims);
    if (!output.strides.empty()) return;
    output.strides = packed_strides(output.dims, output.ragged_offset_tensor_uid.has_value());
}

// `output`, whose dims are known, keeps the rows of a ragged `like`: it shares the offsets, and its
// multiplier makes of their unit as many rows of its own. Unless the author said how it lies.
inline void infer_rows(const char* op, schema::TensorAttributesT& output,
                       const schema::TensorAttributesT& like) {
    const bool is_own = output.ragged_offset_tensor_uid || !output.strides.empty();
    if (is_own || !like.ragged_offset_tensor_uid) return;
    if (output.dims.size() != 4 || like.strides.size() != 4 || like.strides[2] < 1) return;
    const int64_t row = packed_strides(output.dims, true)[2];
    int64_t unit = 0;
    if (__builtin_mul_overflow(like.ragged_offset_multiplier, row, &unit) ||
        unit % like.strides[2] != 0) {
        invalid("[", op, "] '", output.name, "' has rows of ", row,
                " elements and cannot share the ragged offset of '", like.name,
                "', which counts rows of ", like.strides[2], " in units of ",
                like.ragged_offset_multiplier, ", expected a ragged offset of its own");
    }
    output.ragged_offset_tensor_uid = like.ragged_offset_tensor_uid;
    output.ragged_offset_multiplier = unit / like.strides[2];
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
        // Ragged memory allows one order only, which a dense tensor's strides need not have.
        const bool is_alike = like.ragged_offset_tensor_uid || !output.ragged_offset_tensor_uid;
        if (may_write && is_alike) output.strides = like.strides;
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
