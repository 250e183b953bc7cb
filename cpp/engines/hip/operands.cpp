// What both plans of the engine share: which operands kernels can read, and where they are at an
// execute.
#include "operands.hpp"

#include <limits>

namespace raggeddnn::hip {

namespace {

using schema::SdpaProblem;
using schema::TensorGeometry;

constexpr int MAX_WIDTH = 256;

void check_attributes(const SdpaProblem& p) {
    if (const auto name = p.first_unread(false)) {
        invalid("[", p.op, "] attribute ", *name, " is set, expected unset");
    }
    if (p.dropout) invalid("[", p.op, "] dropout is set, expected unset");
    if (p.bias) invalid("[", p.op, "] attribute bias is set, expected unset");
}

void check_rows(const SdpaProblem& p, const TensorGeometry& t) {
    if (t.type != p.q.type) {
        invalid("[", p.op, "] ", t.label, " has data type ", to_string(t.type), ", expected ",
                to_string(p.q.type), " as ", p.q.label);
    }
    if (t.width() > MAX_WIDTH) {
        invalid("[", p.op, "] ", t.label, " has width ", t.width(), ", expected at most ",
                MAX_WIDTH);
    }
    if (t.width() > 1 && t.strides[schema::WIDTH_AXIS] != 1) {
        invalid("[", p.op, "] ", t.label, " has stride ", t.strides[schema::WIDTH_AXIS],
                " over its width, expected 1");
    }
}

IndexArray index_array(const std::optional<schema::IndexTensor>& tensor,
                       const plugin::Buffers& buffers) {
    if (!tensor) return {};
    return {buffers.find_device_buffer(tensor->uid, tensor->label), tensor->stride,
            tensor->type == DataType::INT64};
}

}  // namespace

std::optional<ElementKind> kind_of(DataType type) {
    if (type == DataType::BFLOAT16) return ElementKind::BFLOAT16;
    if (type == DataType::HALF) return ElementKind::FLOAT16;
    return std::nullopt;
}

void check_operands(const SdpaProblem& p, std::initializer_list<const TensorGeometry*> rows,
                    std::initializer_list<const TensorGeometry*> stats) {
    check_attributes(p);
    if (!kind_of(p.q.type)) {
        invalid("[", p.op, "] ", p.q.label, " has data type ", to_string(p.q.type),
                ", expected BFLOAT16 or HALF");
    }
    check_rows(p, p.q);
    for (const TensorGeometry* t : rows) check_rows(p, *t);
    for (const TensorGeometry* t : stats) {
        if (!t || t->type == DataType::FLOAT) continue;
        invalid("[", p.op, "] ", t->label, " has data type ", to_string(t->type),
                ", expected FLOAT");
    }
    constexpr int64_t most = std::numeric_limits<int32_t>::max();
    for (const int64_t n : {p.batches(), p.heads(), p.q.max_rows(), p.k.max_rows()}) {
        if (n > most) invalid("[", p.op, "] an extent is ", n, ", expected at most ", most);
    }
}

RowTensor row_tensor(const TensorGeometry& t, const plugin::Buffers& buffers, bool is_touched) {
    RowTensor made{};
    made.data = is_touched ? buffers.find_device_buffer(t.uid, t.label) : buffers.find(t.uid);
    made.batch_stride = t.strides[schema::BATCH_AXIS];
    made.head_stride = t.strides[schema::HEAD_AXIS];
    made.row_stride = t.strides[schema::SEQUENCE_AXIS];
    if (t.ragged) {
        made.offsets = index_array(t.ragged->offsets, buffers);
        made.multiplier = t.ragged->multiplier;
    }
    return made;
}

AttentionParams attention_params(const SdpaProblem& p, double scale,
                                 const plugin::Buffers& buffers) {
    const bool has_rows = p.q.max_rows() > 0;
    const bool has_scores = has_rows && p.k.max_rows() > 0;
    AttentionParams params{};
    params.q = row_tensor(p.q, buffers, has_scores);
    params.k = row_tensor(p.k, buffers, has_scores);
    params.v = row_tensor(p.v, buffers, has_scores);
    params.o = row_tensor(p.o, buffers, has_rows);
    if (p.stats) params.stats = row_tensor(*p.stats, buffers, has_rows);
    params.lengths_q = index_array(p.seq_len_q, buffers);
    params.lengths_k = index_array(p.seq_len_kv, buffers);
    params.band = {p.left_bound.value_or(Band::OPEN), p.right_bound.value_or(Band::OPEN),
                   p.is_bottom_right};
    params.max_rows_q = p.q.max_rows();
    params.max_rows_k = p.k.max_rows();
    params.batches = static_cast<int32_t>(p.batches());
    params.heads = static_cast<int32_t>(p.heads());
    params.heads_k = static_cast<int32_t>(p.k.heads());
    params.heads_v = static_cast<int32_t>(p.v.heads());
    params.width = static_cast<int32_t>(p.head_dim());
    params.value_width = static_cast<int32_t>(p.value_dim());
    params.scale = static_cast<float>(scale);
    return params;
}

}  // namespace raggeddnn::hip
