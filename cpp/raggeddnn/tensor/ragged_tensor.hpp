// Ragged tensors: dims say [B, ..., S_max, ...], memory holds each batch's own rows, one batch
// after the other, where an aux tensor of B + 1 offsets says.
//
// A row is what one position of the sequence axis holds. Only memory whose batches are contiguous
// runs of whole rows is ragged; with dims [B, S, H, D] that is row-major order (BSHD), with dims
// [B, H, S, D] the same memory by other strides.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "raggeddnn/tensor/tensor.hpp"

namespace raggeddnn {

inline constexpr int BSHD_SEQ_AXIS = 1;  // of dims [B, S, H, D]
inline constexpr int BHSD_SEQ_AXIS = 2;  // of dims [B, H, S, D]

// All that ragged tensors share but the memory. The offsets are read once, at construction: values
// written to the aux later do not move any element.
template <ElementType T>
class RaggedTensorBase : public TensorBase<T> {
public:
    // ragged_offset: rank 4, B + 1 elements of INT32 or INT64; times the multiplier it counts
    // elements. physical_element_count: what memory holds, at least the last offset (the default).
    RaggedTensorBase(std::vector<int64_t> padded_dims, std::vector<int64_t> strides, int seq_axis,
                     std::shared_ptr<ITensor> ragged_offset,
                     std::optional<size_t> physical_element_count = std::nullopt,
                     int64_t ragged_offset_multiplier = 1)
        : padded_dims_(std::move(padded_dims)),
          strides_(std::move(strides)),
          seq_axis_(seq_axis),
          ragged_offset_(std::move(ragged_offset)),
          multiplier_(ragged_offset_multiplier) {
        validate_ragged_structure();
        info_.seq_axis = seq_axis_;
        info_.seq_stride = strides_[static_cast<size_t>(seq_axis_)];
        const auto batches = static_cast<size_t>(padded_dims_[0]);
        info_.row_offsets.reserve(batches + 1);
        for (size_t b = 0; b <= batches; ++b) info_.row_offsets.push_back(read_offset(b));
        validate_ragged_offsets(info_.row_offsets);
        const auto visited = static_cast<size_t>(info_.row_offsets.back());
        physical_element_count_ = physical_element_count.value_or(visited);
        if (physical_element_count_ < visited) {
            invalid("[ragged tensor] physical_element_count got ", physical_element_count_,
                    ", expected at least ", visited, ", the last offset");
        }
    }

    const std::vector<int64_t>& dims() const override { return padded_dims_; }
    const std::vector<int64_t>& strides() const override { return strides_; }
    // The last offset: every position of every batch, whether or not an op takes it for padding.
    size_t element_count() const override { return static_cast<size_t>(info_.row_offsets.back()); }
    size_t element_space() const override { return physical_element_count_; }
    bool is_packed() const override { return false; }
    bool has_regular_dims() const override { return false; }
    std::optional<RaggedIterationInfo> ragged_iteration_info() const override { return info_; }

    const ITensor* ragged_offset() const { return ragged_offset_.get(); }
    const std::shared_ptr<ITensor>& shared_ragged_offset() const { return ragged_offset_; }
    int64_t ragged_offset_multiplier() const { return multiplier_; }
    int seq_axis() const { return seq_axis_; }
    // Sequence positions of a batch.
    int64_t seq_extent(size_t batch) const {
        check_batch(static_cast<int64_t>(batch));
        return info_.seq_extent(batch);
    }

protected:
    // A batch starts at its offset, whatever the stride of axis 0. Beyond the batch's rows the
    // result means nothing.
    int64_t get_index_impl(const std::vector<int64_t>& indices) const override {
        if (indices.empty()) return 0;
        check_batch(indices[0]);
        int64_t offset = info_.row_offsets[static_cast<size_t>(indices[0])];
        for (size_t i = 1; i < indices.size(); ++i) offset += indices[i] * strides_[i];
        return offset;
    }

    // The aux's entry as it is now, in elements.
    int64_t read_offset(size_t batch) const {
        const ITensor& aux = *ragged_offset_;
        // Byte by byte: a variant pack may hold them at any address.
        const void* entry = aux.host_data_offset_from_index(static_cast<int64_t>(batch));
        int64_t stored = 0;
        if (aux.element_size() == sizeof(int32_t)) {
            int32_t narrow = 0;
            std::memcpy(&narrow, entry, sizeof(narrow));
            stored = narrow;
        } else if (aux.element_size() == sizeof(int64_t)) {
            std::memcpy(&stored, entry, sizeof(stored));
        } else {
            invalid("[ragged tensor] ragged_offset got elements of ", aux.element_size(),
                    " bytes, expected 4 or 8 (INT32 or INT64)");
        }
        int64_t offset = 0;
        if (__builtin_mul_overflow(stored, multiplier_, &offset)) {
            invalid("[ragged tensor] ragged_offset[", batch, "] got ", stored,
                    " times the multiplier ", multiplier_, ", expected less than 2^63 elements");
        }
        return offset;
    }

    void validate_ragged_structure() const {
        if (padded_dims_.empty()) {
            invalid("[ragged tensor] padded_dims got [], expected [B, ...] with a sequence axis");
        }
        check_geometry(padded_dims_, strides_);
        const auto rank = static_cast<int>(padded_dims_.size());
        if (seq_axis_ < 1 || seq_axis_ >= rank) {
            invalid("[ragged tensor] seq_axis got ", seq_axis_, ", expected 1 to ", rank - 1,
                    ", an axis of dims ", to_text(padded_dims_), " after the batch");
        }
        if (multiplier_ < 1) {
            invalid("[ragged tensor] ragged_offset_multiplier got ", multiplier_,
                    ", expected at least 1");
        }
        validate_aux();
    }

    // Of offsets in elements.
    void validate_ragged_offsets(const std::vector<int64_t>& offsets) const {
        const int64_t seq_stride = strides_[static_cast<size_t>(seq_axis_)];
        const int64_t seq_max = padded_dims_[static_cast<size_t>(seq_axis_)];
        if (seq_stride <= 0) {
            invalid("[ragged tensor] the stride of sequence axis ", seq_axis_, " got ", seq_stride,
                    ", expected a positive one");
        }
        if (offsets.front() != 0) {
            invalid("[ragged tensor] ragged_offset[0] got ", offsets.front(), ", expected 0");
        }
        if (offsets.back() != 0) validate_rows();
        for (size_t b = 0; b + 1 < offsets.size(); ++b) {
            if (offsets[b + 1] < offsets[b]) {
                invalid("[ragged tensor] ragged_offset[", b + 1, "] got ", offsets[b + 1],
                        ", expected at least ", offsets[b], ", the offset before it");
            }
            const int64_t block = offsets[b + 1] - offsets[b];
            if (block % seq_stride != 0) {
                invalid("[ragged tensor] batch ", b, " got ", block,
                        " elements, expected whole rows of ", seq_stride, ", the stride of axis ",
                        seq_axis_);
            }
            if (block / seq_stride > seq_max) {
                invalid("[ragged tensor] batch ", b, " got ", block / seq_stride,
                        " rows, expected at most ", seq_max, ", the extent of axis ", seq_axis_);
            }
        }
    }

private:
    void validate_aux() const {
        if (!ragged_offset_) {
            invalid(
                "[ragged tensor] ragged_offset got a null pointer, expected a tensor of B + 1 "
                "offsets");
        }
        const ITensor& aux = *ragged_offset_;
        const auto expected = static_cast<size_t>(padded_dims_[0]) + 1;
        if (aux.element_count() != expected) {
            invalid("[ragged tensor] ragged_offset got ", aux.element_count(),
                    " elements, expected ", expected, ", one more than the batches of dims ",
                    to_text(padded_dims_));
        }
        if (aux.dims().size() != 4) {
            invalid("[ragged tensor] ragged_offset got rank ", aux.dims().size(), " ",
                    to_text(aux.dims()), ", expected rank 4: [", expected, ", 1, 1, 1]");
        }
        if (aux.data_type() != DataType::INT32 && aux.data_type() != DataType::INT64) {
            invalid("[ragged tensor] ragged_offset got data type ", to_string(aux.data_type()),
                    " of ", aux.element_size(), " bytes, expected INT32 or INT64");
        }
        if (!aux.is_packed()) {
            invalid("[ragged tensor] ragged_offset got strides ", to_text(aux.strides()),
                    ", expected a packed tensor");
        }
    }

    // The other axes fill a row without gaps or overlap, in any order; so a batch is one run, and
    // iteration visits each element of it once.
    void validate_rows() const {
        std::vector<std::pair<int64_t, int64_t>> axes;  // stride, extent
        for (size_t axis = 1; axis < padded_dims_.size(); ++axis) {
            if (static_cast<int>(axis) == seq_axis_ || padded_dims_[axis] == 1) continue;
            axes.emplace_back(strides_[axis], padded_dims_[axis]);
        }
        std::sort(axes.begin(), axes.end());
        int64_t row = 1;
        bool is_dense = true;
        for (const auto& [stride, extent] : axes) {
            is_dense = is_dense && stride == row && !__builtin_mul_overflow(row, extent, &row);
        }
        if (!is_dense || row != strides_[static_cast<size_t>(seq_axis_)]) {
            invalid("[ragged tensor] got strides ", to_text(strides_), " for dims ",
                    to_text(padded_dims_), ", expected axis ", seq_axis_,
                    " to be the outermost one within a batch, and its stride the elements of the "
                    "other axes, without gaps");
        }
    }

    void check_batch(int64_t batch) const {
        if (batch < 0 || batch >= padded_dims_[0]) {
            invalid("[ragged tensor] index got batch ", batch, ", expected 0 to below ",
                    padded_dims_[0]);
        }
    }

    std::vector<int64_t> padded_dims_;
    std::vector<int64_t> strides_;
    int seq_axis_;
    std::shared_ptr<ITensor> ragged_offset_;  // never null, never another one
    int64_t multiplier_;
    RaggedIterationInfo info_;
    size_t physical_element_count_ = 0;
};

// Owns its memory, zeroed. Data of either the visited elements or the whole memory can be taken
// over.
template <ElementType T, class HostAlloc = HostAllocator<T>, class DeviceAlloc = DeviceAllocator<T>>
class RaggedTensor : public RaggedTensorBase<T> {
public:
    RaggedTensor(std::vector<int64_t> padded_dims, std::vector<int64_t> strides, int seq_axis,
                 std::shared_ptr<ITensor> ragged_offset,
                 std::optional<size_t> physical_element_count = std::nullopt,
                 int64_t ragged_offset_multiplier = 1)
        : RaggedTensorBase<T>(std::move(padded_dims), std::move(strides), seq_axis,
                              std::move(ragged_offset), physical_element_count,
                              ragged_offset_multiplier),
          memory_(this->element_space()) {}

    IMigratableMemory<T>& memory() override { return memory_; }
    const IMigratableMemory<T>& memory() const override { return memory_; }

protected:
    void check_data_count(size_t count, size_t rest) const override {
        if (rest != 0 || count != this->element_count()) {
            RaggedTensorBase<T>::check_data_count(count, rest);
        }
    }

private:
    MigratableMemory<T, HostAlloc, DeviceAlloc> memory_;
};

// Over host memory of the caller's, of at least element_space() elements, which must outlive it.
template <ElementType T>
class ShallowRaggedTensor : public BorrowedFills<RaggedTensorBase<T>> {
public:
    ShallowRaggedTensor(void* data, std::vector<int64_t> padded_dims, std::vector<int64_t> strides,
                        int seq_axis, std::shared_ptr<ITensor> ragged_offset,
                        std::optional<size_t> physical_element_count = std::nullopt,
                        int64_t ragged_offset_multiplier = 1)
        : BorrowedFills<RaggedTensorBase<T>>(std::move(padded_dims), std::move(strides), seq_axis,
                                             std::move(ragged_offset), physical_element_count,
                                             ragged_offset_multiplier),
          memory_(data, this->element_space()) {}

    IMigratableMemory<T>& memory() override { return memory_; }
    const IMigratableMemory<T>& memory() const override { return memory_; }

private:
    ShallowHostOnlyMigratableMemory<T> memory_;
};

}  // namespace raggeddnn
