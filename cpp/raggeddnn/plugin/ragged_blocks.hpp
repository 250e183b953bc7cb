// Where the batches of a tensor begin and how many rows each has: offsets as the host reads them at
// execute, every one checked. For engines whose buffers live in host memory; others report what
// they found in the same words.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/plugin/buffers.hpp"
#include "raggeddnn/schema/tensor_geometry.hpp"

namespace raggeddnn::plugin {

// The integers of an offsets or lengths tensor.
class IndexReader {
public:
    IndexReader(const schema::IndexTensor& tensor, const Buffers& buffers)
        : memory_(tensor.count > 0 ? buffers.find_device_buffer(tensor.uid, tensor.label)
                                   : nullptr),
          stride_(tensor.stride),
          is_wide_(tensor.type == DataType::INT64) {}

    int64_t operator[](int64_t index) const {
        return is_wide_ ? load<int64_t>(index) : load<int32_t>(index);
    }

private:
    template <class T>
    int64_t load(int64_t index) const {
        T value;
        std::memcpy(&value, static_cast<const T*>(memory_) + index * stride_, sizeof(T));
        return value;
    }

    const void* memory_;
    int64_t stride_;
    bool is_wide_;
};

[[noreturn]] inline void refuse_index(std::string_view op, const schema::IndexTensor& tensor,
                                      int64_t index, int64_t got, const std::string& expected) {
    invalid("[", op, "] ", tensor.label, ": index ", index, " is ", got, ", expected ", expected);
}

// A valid length that the block of its batch, of so many rows, does not have.
[[noreturn]] inline void refuse_length(std::string_view op, const schema::IndexTensor& lengths,
                                       int64_t batch, int64_t got, int64_t rows) {
    refuse_index(op, lengths, batch, got, message("0 to ", rows, ", the rows it has"));
}

inline constexpr int64_t UNKNOWN_ROWS = -1;

// Where one batch of one tensor is noted.
struct BlockSlot {
    int64_t& base;  // first element
    int64_t& rows;  // UNKNOWN_ROWS, or what the tensors read before said
};

inline void check_first_offset(std::string_view op, const schema::IndexTensor& offsets,
                               int64_t first) {
    if (first != 0) refuse_index(op, offsets, 0, first, "0");
}

// Rows of the block [begin, end) of batch b, in stored offsets; `begin` was checked before.
template <class Tensor>
int64_t rows_between(std::string_view op, const Tensor& tensor, int64_t b, int64_t begin,
                     int64_t end) {
    const schema::RaggedOffsets& ragged = *tensor.ragged;
    if (end < begin) {
        refuse_index(op, ragged.offsets, b + 1, end,
                     message("at least ", begin, ", the offset before"));
    }
    // Bytes of the whole buffer must stay within 64 bits too.
    const auto element_bytes = static_cast<int64_t>((bits_of(tensor.type) + 7) / 8);
    const int64_t most = std::numeric_limits<int64_t>::max() / element_bytes / ragged.multiplier;
    if (end > most) refuse_index(op, ragged.offsets, b + 1, end, message("at most ", most));

    const int64_t row = tensor.strides[schema::SEQUENCE_AXIS];
    const int64_t elements = (end - begin) * ragged.multiplier;
    if (elements % row != 0) {
        invalid("[", op, "] ", ragged.offsets.label, ": index ", b + 1, " is ", end,
                " and ends a block of ", elements, " elements of ", tensor.label,
                ", expected a whole number of rows of ", row);
    }
    const int64_t max_rows = tensor.dims[schema::SEQUENCE_AXIS];
    if (elements / row > max_rows) {
        invalid("[", op, "] ", ragged.offsets.label, ": index ", b + 1, " is ", end,
                " and ends a block of ", elements / row, " rows of ", tensor.label,
                ", expected at most ", max_rows, " as dims say");
    }
    return elements / row;
}

// A block of batch b that has not the rows of the tensors that it goes with.
[[noreturn]] inline void refuse_rows(std::string_view op, const schema::IndexTensor& offsets,
                                     int64_t b, int64_t got, int64_t expected) {
    invalid("[", op, "] ", offsets.label, ": index ", b + 1, " ends a block of ", got,
            " rows, expected ", expected, " as in the ragged tensors that it goes with");
}

// Notes every batch of `tensor`, a TensorGeometry or an Operand, in slot_of(batch). A ragged tensor
// says how many rows each batch has, in which all that share the slots' rows must agree; a dense
// one says nothing of them. Throws INVALID_VALUE naming tensor, index, what was got and what was
// expected.
template <class Tensor, class SlotOf>
void read_blocks(std::string_view op, const Tensor& tensor, size_t batches, const Buffers& buffers,
                 SlotOf&& slot_of) {
    if (!tensor.ragged) {
        for (size_t b = 0; b < batches; ++b) {
            slot_of(b).base = static_cast<int64_t>(b) * tensor.strides[schema::BATCH_AXIS];
        }
        return;
    }
    const schema::RaggedOffsets& ragged = *tensor.ragged;
    const IndexReader offsets(ragged.offsets, buffers);
    check_first_offset(op, ragged.offsets, offsets[0]);
    for (size_t batch = 0; batch < batches; ++batch) {
        const auto b = static_cast<int64_t>(batch);
        const int64_t rows = rows_between(op, tensor, b, offsets[b], offsets[b + 1]);
        const BlockSlot slot = slot_of(batch);
        if (slot.rows != UNKNOWN_ROWS && slot.rows != rows) {
            refuse_rows(op, ragged.offsets, b, rows, slot.rows);
        }
        slot.base = offsets[b] * ragged.multiplier;
        slot.rows = rows;
    }
}

}  // namespace raggeddnn::plugin
