// Iteration over the elements of any tensor, in the order of dims (the last axis fastest).
//
// A tensor whose memory has that very order is walked linearly, another dense one by its index, a
// ragged one batch by batch over the rows that the batch has. `*it` points to the element.
#pragma once

#include <cassert>
#include <cstddef>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "raggeddnn/tensor/itensor.hpp"

namespace raggeddnn {

// Offset and position are the same number.
class LinearIndex {
public:
    explicit LinearIndex(int64_t position) : position_(position) {}

    void advance() { ++position_; }
    int64_t position() const { return position_; }
    int64_t offset(const ITensor&) const { return position_; }
    std::vector<int64_t> indices(const ITensor& tensor) const {
        std::vector<int64_t> found(tensor.dims().size());
        int64_t rest = position_;
        for (size_t axis = found.size(); axis-- > 0;) {
            found[axis] = rest % tensor.dims()[axis];
            rest /= tensor.dims()[axis];
        }
        return found;
    }

private:
    int64_t position_;
};

// Every index below dims.
class CompositeIndex {
public:
    CompositeIndex(const ITensor& tensor, int64_t position)
        : dims_(&tensor.dims()), indices_(tensor.dims().size(), 0), position_(position) {}

    void advance() {
        ++position_;
        for (size_t axis = indices_.size(); axis-- > 0;) {
            if (++indices_[axis] < (*dims_)[axis]) return;
            indices_[axis] = 0;
        }
    }
    int64_t position() const { return position_; }
    int64_t offset(const ITensor& tensor) const { return tensor.get_index(indices_); }
    std::vector<int64_t> indices(const ITensor&) const { return indices_; }

private:
    const std::vector<int64_t>* dims_;  // the tensor's, which outlives its iterators
    std::vector<int64_t> indices_;
    int64_t position_;
};

// {batch, within the batch ...}: the sequence axis bounded by the rows of the batch, every other
// one by dims. Batches without rows are passed over.
class RaggedCompositeIndex {
public:
    RaggedCompositeIndex(const ITensor& tensor, RaggedIterationInfo info, int64_t position)
        : info_(std::make_shared<const RaggedIterationInfo>(std::move(info))),
          bounds_(tensor.dims()),
          indices_(tensor.dims().size(), 0),
          position_(position) {
        assert(static_cast<int64_t>(info_->row_offsets.size()) == bounds_[0] + 1);
        assert(info_->row_offsets.front() == 0);
        assert(info_->seq_stride > 0);
        enter_batch();
    }

    void advance() {
        ++position_;
        for (size_t axis = indices_.size(); axis-- > 1;) {
            if (++indices_[axis] < bounds_[axis]) return;
            indices_[axis] = 0;
        }
        ++indices_[0];
        enter_batch();
    }
    int64_t position() const { return position_; }
    int64_t offset(const ITensor& tensor) const { return tensor.get_index(indices_); }
    std::vector<int64_t> indices(const ITensor&) const { return indices_; }

private:
    void enter_batch() {
        for (; indices_[0] < bounds_[0]; ++indices_[0]) {
            const auto batch = static_cast<size_t>(indices_[0]);
            assert(info_->row_offsets[batch + 1] >= info_->row_offsets[batch]);
            assert((info_->row_offsets[batch + 1] - info_->row_offsets[batch]) %
                       info_->seq_stride ==
                   0);
            bounds_[static_cast<size_t>(info_->seq_axis)] = info_->seq_extent(batch);
            if (info_->seq_extent(batch) > 0) return;
        }
    }

    std::shared_ptr<const RaggedIterationInfo> info_;  // copies of an iterator share it
    std::vector<int64_t> bounds_;                      // dims, but for the batch's own rows
    std::vector<int64_t> indices_;
    int64_t position_;
};

template <bool IsConst>
class ITensorIterator {
public:
    using TensorPtr = std::conditional_t<IsConst, const ITensor*, ITensor*>;
    using IndexType = std::variant<LinearIndex, CompositeIndex, RaggedCompositeIndex>;
    using iterator_category = std::forward_iterator_tag;
    using value_type = std::conditional_t<IsConst, const void*, void*>;
    using difference_type = ptrdiff_t;
    using pointer = const value_type*;
    using reference = value_type;

    ITensorIterator() : index_(LinearIndex(0)) {}
    ITensorIterator(TensorPtr tensor, bool is_end)
        : tensor_(tensor), index_(make_index(*tensor, is_end)) {}

    value_type operator*() const { return tensor_->host_data_offset_from_index(offset()); }
    ITensorIterator& operator++() {
        std::visit([](auto& index) { index.advance(); }, index_);
        return *this;
    }
    ITensorIterator operator++(int) {
        ITensorIterator before = *this;
        ++*this;
        return before;
    }
    // Of iterators over the same tensor.
    bool operator==(const ITensorIterator& other) const {
        return tensor_ == other.tensor_ && position() == other.position();
    }

    std::vector<int64_t> indices() const {
        return std::visit([this](const auto& index) { return index.indices(*tensor_); }, index_);
    }
    int64_t offset() const {
        return std::visit([this](const auto& index) { return index.offset(*tensor_); }, index_);
    }
    // How many elements came before.
    int64_t position() const {
        return std::visit([](const auto& index) { return index.position(); }, index_);
    }
    const IndexType& index() const { return index_; }

private:
    static IndexType make_index(const ITensor& tensor, bool is_end) {
        const int64_t position = is_end ? static_cast<int64_t>(tensor.element_count()) : 0;
        if (auto info = tensor.ragged_iteration_info()) {
            return RaggedCompositeIndex(tensor, std::move(*info), position);
        }
        if (tensor.is_packed() && is_row_major(tensor.dims(), tensor.strides())) {
            return LinearIndex(position);
        }
        return CompositeIndex(tensor, position);
    }

    TensorPtr tensor_ = nullptr;
    IndexType index_;
};

inline ITensorIterator<false> ITensor::begin() { return {this, false}; }
inline ITensorIterator<false> ITensor::end() { return {this, true}; }
inline ITensorIterator<true> ITensor::begin() const { return {this, false}; }
inline ITensorIterator<true> ITensor::end() const { return {this, true}; }
inline ITensorIterator<true> ITensor::cbegin() const { return {this, false}; }
inline ITensorIterator<true> ITensor::cend() const { return {this, true}; }

}  // namespace raggeddnn
