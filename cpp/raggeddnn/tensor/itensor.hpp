// The type-erased tensor of the data SDK: dims, strides, addressing and iteration, whatever holds
// the memory. Indices are multi-dimensional in the order of dims; offsets are in elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/tensor/data_type.hpp"
#include "raggeddnn/tensor/geometry.hpp"

namespace raggeddnn {

template <bool IsConst>
class ITensorIterator;

// What iteration of a ragged tensor needs, without reading the aux again.
struct RaggedIterationInfo {
    std::vector<int64_t> row_offsets;  // B + 1, in elements
    int seq_axis = 0;
    int64_t seq_stride = 0;  // strides()[seq_axis]

    // Sequence positions of a batch.
    int64_t seq_extent(size_t batch) const {
        return (row_offsets[batch + 1] - row_offsets[batch]) / seq_stride;
    }
    bool operator==(const RaggedIterationInfo&) const = default;
};

class ITensor {
public:
    ITensor() = default;
    ITensor(const ITensor&) = delete;
    ITensor& operator=(const ITensor&) = delete;
    virtual ~ITensor() = default;

    virtual DataType data_type() const = 0;
    virtual size_t element_size() const = 0;  // bytes
    virtual const std::vector<int64_t>& dims() const = 0;
    virtual const std::vector<int64_t>& strides() const = 0;
    virtual size_t element_count() const = 0;  // what iteration visits
    virtual size_t element_space() const = 0;  // what memory holds
    // May the memory be taken as one flat dense buffer, in the order of memory? Never for a ragged
    // tensor, although its count and space agree.
    virtual bool is_packed() const = 0;
    // Does every index below dims() exist, at the inner product of index and strides? Gaps in
    // memory do not matter here.
    virtual bool has_regular_dims() const { return true; }
    // Nothing for a dense tensor. Iteration takes it once, at begin() and end().
    virtual std::optional<RaggedIterationInfo> ragged_iteration_info() const {
        return std::nullopt;
    }

    virtual void* raw_host_data() = 0;
    virtual const void* raw_host_data() const = 0;
    virtual void* raw_device_data() = 0;
    void* host_data_offset_from_index(int64_t offset) {
        return static_cast<unsigned char*>(raw_host_data()) + bytes_to(offset);
    }
    const void* host_data_offset_from_index(int64_t offset) const {
        return static_cast<const unsigned char*>(raw_host_data()) + bytes_to(offset);
    }

    // Offset of an index; one that is shorter than dims() means zeros for the rest.
    int64_t get_index(const std::vector<int64_t>& indices) const {
        if (indices.size() > dims().size()) {
            invalid("[tensor] index got ", indices.size(), " numbers ", to_text(indices),
                    ", expected at most ", dims().size(), ", the rank of dims ", to_text(dims()));
        }
        return get_index_impl(indices);
    }
    // Throws INVALID_VALUE for an index outside; get_index() does not look.
    void check_index(const std::vector<int64_t>& indices) const;

    // Every element gets the data type's sentinel, those that no index reaches too.
    virtual void fill_with_sentinel_value() = 0;
    // Uniform over [low, high), of integers over [low, high]. The n-th element visited depends on
    // the seed alone, not on strides.
    virtual void fill_with_random_values(double low, double high, uint64_t seed) = 0;
    // Takes the memory over as it is: `bytes` must be those of element_space() elements.
    virtual void fill_with_data(const void* data, size_t bytes) = 0;

    ITensorIterator<false> begin();
    ITensorIterator<false> end();
    ITensorIterator<true> begin() const;
    ITensorIterator<true> end() const;
    ITensorIterator<true> cbegin() const;
    ITensorIterator<true> cend() const;

protected:
    virtual int64_t get_index_impl(const std::vector<int64_t>& indices) const {
        const std::vector<int64_t>& steps = strides();
        int64_t offset = 0;
        for (size_t i = 0; i < indices.size(); ++i) offset += indices[i] * steps[i];
        return offset;
    }

private:
    ptrdiff_t bytes_to(int64_t offset) const {
        return static_cast<ptrdiff_t>(offset) * static_cast<ptrdiff_t>(element_size());
    }
};

inline void ITensor::check_index(const std::vector<int64_t>& indices) const {
    if (indices.size() > dims().size()) get_index(indices);  // says what is wrong
    const auto ragged = ragged_iteration_info();
    for (size_t axis = 0; axis < indices.size(); ++axis) {
        const bool is_seq = ragged && static_cast<int>(axis) == ragged->seq_axis;
        const int64_t extent =
            is_seq ? ragged->seq_extent(static_cast<size_t>(indices[0])) : dims()[axis];
        if (indices[axis] >= 0 && indices[axis] < extent) continue;
        invalid("[tensor] index got ", to_text(indices), ", expected ", indices[axis], " on axis ",
                axis, " to be from 0 to below ", extent, is_seq ? ", the rows of that batch" : "");
    }
}

}  // namespace raggeddnn
