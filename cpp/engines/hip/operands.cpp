// What both plans of the engine share: which operands kernels can read, and where they are at an
// execute.
#include "operands.hpp"

#include <algorithm>
#include <limits>

#include "raggeddnn/base/fnv1a.hpp"
#include "raggeddnn/plugin/sdpa_operands.hpp"

namespace raggeddnn::hip {

namespace {

using schema::SdpaProblem;
using schema::TensorGeometry;

IndexArray index_array(const std::optional<schema::IndexTensor>& tensor,
                       const plugin::Buffers& buffers) {
    if (!tensor) return {};
    return {buffers.find_device_buffer(tensor->uid, tensor->label), tensor->stride,
            tensor->type == DataType::INT64};
}

// Of a ragged tensor without elements the pack may hold no pointer: only its offsets tell.
void* memory_of(const TensorGeometry& t, const plugin::Buffers& buffers, bool is_touched) {
    void* const memory = buffers.find(t.uid);
    if (memory || !is_touched) return memory;
    const bool is_listed = std::any_of(buffers.begin(), buffers.end(),
                                       [&t](const auto& entry) { return entry.uid == t.uid; });
    return t.ragged && is_listed ? nullptr : buffers.find_device_buffer(t.uid, t.label);
}

RandomNumber random_number(const schema::RandomInput& input, const std::optional<int64_t>& baked,
                           const plugin::Buffers& buffers) {
    if (baked) return {{}, *baked};
    const void* memory = buffers.find_device_buffer(input.uid, input.label);
    if (input.is_by_value) return {{}, plugin::read_integer(input.type, memory)};
    return {{memory, 0, input.type == DataType::INT64}, 0};
}

}  // namespace

std::optional<ElementKind> kind_of(DataType type) {
    if (type == DataType::FLOAT) return ElementKind::FLOAT32;
    if (type == DataType::BFLOAT16) return ElementKind::BFLOAT16;
    if (type == DataType::HALF) return ElementKind::FLOAT16;
    return std::nullopt;
}

void check_operands(const SdpaProblem& p, std::initializer_list<const TensorGeometry*> rows,
                    std::initializer_list<const TensorGeometry*> stats) {
    plugin::check_kernel_operands(p, rows, stats);
    const auto check = [&p](int64_t n, int64_t most) {
        if (n > most) invalid("[", p.op, "] an extent is ", n, ", expected at most ", most);
    };
    constexpr int64_t MOST = std::numeric_limits<int32_t>::max();
    for (const int64_t n : {p.batches(), p.q.max_rows(), p.k.max_rows()}) check(n, MOST);
    check(p.heads(), MOST / 2);  // those of K and of V are also counted together
}

RowTensor row_tensor(const TensorGeometry& t, const plugin::Buffers& buffers, bool is_touched) {
    RowTensor made{};
    made.data = memory_of(t, buffers, is_touched);
    made.batch_stride = t.strides[schema::BATCH_AXIS];
    made.head_stride = t.strides[schema::HEAD_AXIS];
    made.row_stride = t.strides[schema::SEQUENCE_AXIS];
    const bool is_there = is_touched || made.data;
    if (t.ragged && is_there) {
        made.offsets = index_array(t.ragged->offsets, buffers);
        made.multiplier = t.ragged->multiplier;
    }
    return made;
}

ClearedOutput cleared_output(const TensorGeometry& t, const RowTensor& memory,
                             std::span<const raggeddnnClearedOutput_t> asked, uint32_t word) {
    if (!t.ragged) return {};
    const auto found =
        std::find_if(asked.begin(), asked.end(), [&t](const auto& a) { return a.uid == t.uid; });
    if (found == asked.end()) return {};
    return {memory, t.max_rows(), found->bytes, static_cast<int32_t>(bytes_of(t.type, 1)), word};
}

BiasTensor bias_tensor(const TensorGeometry& t, const plugin::Buffers& buffers, bool is_touched) {
    return {memory_of(t, buffers, is_touched), t.strides[schema::BATCH_AXIS],
            t.strides[schema::HEAD_AXIS],      t.strides[schema::SEQUENCE_AXIS],
            t.strides[schema::WIDTH_AXIS],     t.type == DataType::FLOAT};
}

RuntimeOperands::RuntimeOperands(const plugin::GraphView& graph, const SdpaProblem& p) {
    if (p.scale_uid) scale_ = plugin::ScalarOperand::make(graph.tensor(*p.scale_uid));
    if (!p.dropout) return;
    const auto baked = [&graph](const schema::RandomInput& input) {
        return plugin::baked_integer(graph.tensor(input.uid), input.label);
    };
    seed_ = baked(p.dropout->seed);
    offset_ = baked(p.dropout->offset);
}

AttentionParams RuntimeOperands::resolve(const SdpaProblem& p,
                                         const plugin::Buffers& buffers) const {
    const bool has_rows = p.batches() > 0 && p.q.max_rows() > 0;
    const bool has_scores = has_rows && p.k.max_rows() > 0;
    AttentionParams params{};
    params.q = row_tensor(p.q, buffers, has_scores);
    params.k = row_tensor(p.k, buffers, has_scores);
    params.v = row_tensor(p.v, buffers, has_scores);
    params.o = row_tensor(p.o, buffers, has_rows);
    if (p.stats) params.stats = row_tensor(*p.stats, buffers, has_rows);
    params.lengths_q = index_array(p.seq_len_q, buffers);
    params.lengths_k = index_array(p.seq_len_kv, buffers);
    if (p.bias) params.bias = bias_tensor(*p.bias, buffers, has_scores);
    if (p.dropout) {
        params.dropout = {p.dropout->probability, random_number(p.dropout->seed, seed_, buffers),
                          random_number(p.dropout->offset, offset_, buffers)};
    }
    params.band = {p.left_bound.value_or(Band::OPEN), p.right_bound.value_or(Band::OPEN),
                   p.is_bottom_right};
    params.max_rows_q = p.q.max_rows();
    params.max_rows_k = p.k.max_rows();
    params.batches = static_cast<int32_t>(p.batches());
    params.heads = static_cast<int32_t>(p.heads());
    params.heads_k = static_cast<int32_t>(p.k.heads());
    params.heads_v = static_cast<int32_t>(p.v.heads());
    params.group_k = params.heads / params.heads_k;
    params.group_v = params.heads / params.heads_v;
    params.width = static_cast<int32_t>(p.head_dim());
    params.value_width = static_cast<int32_t>(p.value_dim());
    params.scale = static_cast<float>(scale_ ? scale_->resolve(buffers) : p.scale);
    return params;
}

ScheduleReuse::ScheduleReuse(const plugin::GraphView& graph, std::string_view kernel,
                             const plugin::EngineConfig* config)
    : plan_(fnv1a(kernel, fnv1a(graph.bytes()))) {
    if (!config) return;
    const int64_t knob = config->knob(KNOB.name, KNOB.default_value);
    if (knob != 0 && knob != 1) invalid("knob '", KNOB.name, "' is ", knob, ", expected 0 or 1");
    is_taken_ = knob == 1;
}

void ScheduleReuse::name(std::initializer_list<Schedule*> schedules, const AttentionParams& p,
                         std::initializer_list<const RowTensor*> more) const {
    uint64_t name = plan_;
    const auto add = [&name](const void* table, bool has_memory) {
        name = (name ^ reinterpret_cast<uintptr_t>(table)) * 0x9e3779b97f4a7c15ULL;
        name ^= name >> 32 ^ (has_memory ? 1 : 0);
    };
    const auto add_tensor = [&add](const RowTensor& t) { add(t.offsets.data, t.data); };
    for (const RowTensor* tensor : {&p.q, &p.k, &p.v, &p.o, &p.stats}) add_tensor(*tensor);
    for (const RowTensor* tensor : more) add_tensor(*tensor);
    for (const IndexArray* lengths : {&p.lengths_q, &p.lengths_k}) add(lengths->data, true);
    for (Schedule* schedule : schedules) {
        schedule->name = std::max<uint64_t>(name, 1);
        schedule->is_taken = is_taken_;
    }
}

}  // namespace raggeddnn::hip
