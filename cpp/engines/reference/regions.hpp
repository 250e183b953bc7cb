// Where an operation has elements: everywhere in dense tensors, and in ragged ones batch by batch,
// as many rows as the offsets say. Every offset is checked before anything is written.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "raggeddnn/plugin/buffers.hpp"
#include "raggeddnn/schema/operand.hpp"

namespace raggeddnn::reference {

using schema::Dims;

// A box of elements. Of a ragged operation: one batch, dims [1, H, rows, D].
struct Region {
    Dims dims;
    std::vector<int64_t> bases;  // first element of each operand
    int64_t batch = 0;           // the first index over axis 0
};

// `operands` are views of `dims`; scalars and broadcast axes have stride 0. `by_batch`: a region
// for each batch even where all are dense. Throws INVALID_VALUE naming tensor, index, what was got
// and what was expected.
std::vector<Region> regions_of(std::string_view op, const Dims& dims,
                               const std::vector<const schema::Operand*>& operands,
                               const plugin::Buffers& buffers, bool by_batch = false);

bool has_elements(const std::vector<Region>& regions);

// Calls body(offsets) for every index of `dims` in row-major order; offsets[k] = its start +
// the index times strides[k].
template <class Body>
void walk(const Dims& dims, const std::vector<Dims>& strides, std::vector<int64_t> offsets,
          Body&& body) {
    for (const int64_t dim : dims) {
        if (dim == 0) return;
    }
    Dims index(dims.size(), 0);
    while (true) {
        body(std::as_const(offsets));
        size_t axis = dims.size();
        while (axis > 0 && index[axis - 1] + 1 == dims[axis - 1]) {
            --axis;
            for (size_t k = 0; k < offsets.size(); ++k) {
                offsets[k] -= index[axis] * strides[k][axis];
            }
            index[axis] = 0;
        }
        if (axis == 0) return;
        ++index[axis - 1];
        for (size_t k = 0; k < offsets.size(); ++k) offsets[k] += strides[k][axis - 1];
    }
}

// `dims` with 1 over the axes where `is_one` is `value`.
inline Dims collapsed(Dims dims, const std::vector<bool>& is_one, bool value = true) {
    for (size_t axis = 0; axis < dims.size(); ++axis) {
        if (is_one[axis] == value) dims[axis] = 1;
    }
    return dims;
}

}  // namespace raggeddnn::reference
