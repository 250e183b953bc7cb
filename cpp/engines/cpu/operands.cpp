// Where operands are at an execute, and what becomes of rows that hold nothing.
#include "operands.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace raggeddnn::cpu {

using plugin::Buffers;
using plugin::Sequence;
using schema::SdpaProblem;
using schema::TensorGeometry;

Element element_of(DataType type) {
    if (type == DataType::BFLOAT16) return Element::BFLOAT16;
    return type == DataType::HALF ? Element::FLOAT16 : Element::FLOAT32;
}

RowTensor::RowTensor(const TensorGeometry& t, const Buffers& buffers, bool is_touched)
    : data_(static_cast<char*>(is_touched ? buffers.find_device_buffer(t.uid, t.label)
                                          : buffers.find(t.uid))),
      element_(element_of(t.type)),
      head_stride_(t.strides[schema::HEAD_AXIS]),
      row_stride_(t.strides[schema::SEQUENCE_AXIS]),
      width_(t.width()),
      max_rows_(t.max_rows()),
      is_ragged_(t.ragged.has_value()) {}

Rows RowTensor::rows(int64_t base, int64_t head) const {
    if (!data_) return {nullptr, row_stride_};
    return {data_ + (base + head * head_stride_) * bytes_of(element_), row_stride_};
}

void RowTensor::clear(int64_t base, int64_t head, int64_t begin, int64_t end) const {
    if (!data_) return;
    const int64_t size = bytes_of(element_);
    char* const first = static_cast<char*>(rows(base, head).data);
    for (int64_t row = begin; row < end; ++row) {
        std::memset(first + row * row_stride_ * size, 0, static_cast<size_t>(width_ * size));
    }
}

void RowTensor::clear_stats(int64_t base, int64_t head, int64_t begin, int64_t end) const {
    if (!data_) return;
    auto* const first = static_cast<float*>(rows(base, head).data);
    for (int64_t row = begin; row < end; ++row) {
        first[row * row_stride_] = -std::numeric_limits<float>::infinity();
    }
}

RowTensor written_tensor(const TensorGeometry& t, const Buffers& buffers, int64_t rows) {
    return {t, buffers, rows > 0 || (!t.ragged && t.batches() > 0 && t.max_rows() > 0)};
}

RuntimeOperands::RuntimeOperands(const plugin::GraphView& graph, const SdpaProblem& p) {
    if (p.scale_uid) scale_ = plugin::ScalarOperand::make(graph.tensor(*p.scale_uid));
    if (p.dropout) dropout_.emplace(graph, *p.dropout);
}

RuntimeOperands::Resolved RuntimeOperands::resolve(const SdpaProblem& p, const Buffers& buffers,
                                                   bool has_scores) const {
    Resolved found;
    found.scale = static_cast<float>(scale_ ? scale_->resolve(buffers) : p.scale);
    found.q = RowTensor(p.q, buffers, has_scores);
    found.k = RowTensor(p.k, buffers, has_scores);
    found.v = RowTensor(p.v, buffers, has_scores);
    if (p.bias && has_scores) found.bias = buffers.find_device_buffer(p.bias->uid, p.bias->label);
    if (dropout_) found.dropout = dropout_->resolve(buffers);
    return found;
}

namespace {

Band band_of(const SdpaProblem& p, const Sequence& s) {
    // Farther than any key is from any row, and far from the end of 64 bits.
    constexpr int64_t open = std::numeric_limits<int64_t>::max() / 4;
    const int64_t diagonal = p.is_bottom_right ? s.valid_kv - s.valid_q : 0;
    return {diagonal - p.left_bound.value_or(open), diagonal + p.right_bound.value_or(open)};
}

}  // namespace

void describe_head(const SdpaProblem& p, const RuntimeOperands::Resolved& operands,
                   const Sequence& s, int64_t batch, int64_t head, Head& to) {
    to.q = operands.q.rows(s.base_q, head);
    to.k = operands.k.rows(s.base_k, head / (p.heads() / p.k.heads()));
    to.v = operands.v.rows(s.base_v, head / (p.heads() / p.v.heads()));
    to.rows = s.valid_q;
    to.keys = s.valid_kv;
    to.band = band_of(p, s);
    to.scale = operands.scale;
    to.width = static_cast<int32_t>(p.head_dim());
    to.value_width = static_cast<int32_t>(p.value_dim());
    to.element = element_of(p.q.type);
    to.bias = {};
    if (operands.bias) {
        const schema::Dims4& strides = p.bias->strides;
        const Element element = element_of(p.bias->type);
        const int64_t first =
            batch * strides[schema::BATCH_AXIS] + head * strides[schema::HEAD_AXIS];
        to.bias = {static_cast<const char*>(operands.bias) + first * bytes_of(element),
                   strides[schema::SEQUENCE_AXIS], strides[schema::WIDTH_AXIS], element};
    }
    to.dropout = {};
    if (operands.dropout) to.dropout = {true, batch, head, *operands.dropout};
}

double count_pairs(const SdpaProblem& p, const Sequence& s) {
    if (s.valid_q == 0 || s.valid_kv == 0) return 0;
    int64_t keys = 0;
    for (const int64_t row : {int64_t{0}, s.valid_q / 2, s.valid_q - 1}) {
        const plugin::KeyRange seen = visible_keys(p, s, row);
        keys += std::max<int64_t>(0, seen.end - seen.begin);
    }
    return static_cast<double>(s.valid_q) * static_cast<double>(keys) / 3;
}

WorkspaceCutter::WorkspaceCutter(void* memory, std::string_view op) {
    if (!memory) invalid("[", op, "] the workspace is null, expected memory");
    const auto address = reinterpret_cast<uintptr_t>(memory);
    const uintptr_t past = address % MEMORY_ALIGNMENT;
    begin_ = static_cast<char*>(memory) + (past == 0 ? 0 : MEMORY_ALIGNMENT - past);
}

char* WorkspaceCutter::take_bytes(int64_t count, int64_t times, int64_t size) {
    char* const array = begin_ ? begin_ + used_ : nullptr;
    int64_t bytes = 0;
    if (__builtin_mul_overflow(count, times, &bytes) ||
        __builtin_mul_overflow(bytes, size, &bytes) ||
        bytes > std::numeric_limits<int64_t>::max() - used_ - 2 * MEMORY_ALIGNMENT) {
        invalid("the workspace needs ", times, " times ", count, " elements of ", size,
                " bytes after ", used_, " others, expected less than 2^63 bytes in all");
    }
    used_ += (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
    return array;
}

}  // namespace raggeddnn::cpu
