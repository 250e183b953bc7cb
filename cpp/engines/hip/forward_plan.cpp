// A forward attention node on the GPU: what of it can be run, and its parameters at each execute.
#include "forward_plan.hpp"

#include <algorithm>
#include <limits>

#include "raggeddnn/schema/sdpa_problem.hpp"

namespace raggeddnn::hip {

namespace {

using schema::SdpaProblem;
using schema::TensorGeometry;

constexpr int MAX_WIDTH = 256;

std::optional<ElementKind> kind_of(DataType type) {
    if (type == DataType::BFLOAT16) return ElementKind::BFLOAT16;
    if (type == DataType::HALF) return ElementKind::FLOAT16;
    return std::nullopt;
}

void check_readable(const SdpaProblem& p) {
    if (const auto name = p.first_unread(false)) {
        invalid("[", p.op, "] attribute ", *name, " is set, expected unset");
    }
    if (p.dropout) invalid("[", p.op, "] dropout is set, expected unset");
    if (p.bias) invalid("[", p.op, "] attribute bias is set, expected unset");
}

void check_tensors(const SdpaProblem& p) {
    if (!kind_of(p.q.type)) {
        invalid("[", p.op, "] ", p.q.label, " has data type ", to_string(p.q.type),
                ", expected BFLOAT16 or HALF");
    }
    for (const TensorGeometry* t : {&p.q, &p.k, &p.v, &p.o}) {
        if (t->type != p.q.type) {
            invalid("[", p.op, "] ", t->label, " has data type ", to_string(t->type), ", expected ",
                    to_string(p.q.type), " as ", p.q.label);
        }
        if (t->width() > MAX_WIDTH) {
            invalid("[", p.op, "] ", t->label, " has width ", t->width(), ", expected at most ",
                    MAX_WIDTH);
        }
        if (t->width() > 1 && t->strides[schema::WIDTH_AXIS] != 1) {
            invalid("[", p.op, "] ", t->label, " has stride ", t->strides[schema::WIDTH_AXIS],
                    " over its width, expected 1");
        }
    }
    if (p.stats && p.stats->type != DataType::FLOAT) {
        invalid("[", p.op, "] ", p.stats->label, " has data type ", to_string(p.stats->type),
                ", expected FLOAT");
    }
    constexpr int64_t most = std::numeric_limits<int32_t>::max();
    for (const int64_t n : {p.batches(), p.heads(), p.q.max_rows(), p.k.max_rows()}) {
        if (n > most) invalid("[", p.op, "] an extent is ", n, ", expected at most ", most);
    }
}

IndexArray index_array(const std::optional<schema::IndexTensor>& tensor,
                       const plugin::Buffers& buffers) {
    if (!tensor) return {};
    return {buffers.find_device_buffer(tensor->uid, tensor->label), tensor->stride,
            tensor->type == DataType::INT64};
}

// A tensor without elements may come without memory.
RowTensor row_tensor(const TensorGeometry& t, const plugin::Buffers& buffers, bool is_empty) {
    RowTensor made{};
    made.data = is_empty ? buffers.find(t.uid) : buffers.find_device_buffer(t.uid, t.label);
    made.batch_stride = t.strides[schema::BATCH_AXIS];
    made.head_stride = t.strides[schema::HEAD_AXIS];
    made.row_stride = t.strides[schema::SEQUENCE_AXIS];
    if (t.ragged) {
        made.offsets = index_array(t.ragged->offsets, buffers);
        made.multiplier = t.ragged->multiplier;
    }
    return made;
}

size_t aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace

ForwardPlan::ForwardPlan(const plugin::GraphView& graph, const schema::Node& node)
    : problem_(schema::read_sdpa_problem(graph, node)) {
    if (problem_.scale_uid) {
        scale_ = plugin::ScalarOperand::make(graph.tensor(*problem_.scale_uid));
    }
    check_readable(problem_);
    check_tensors(problem_);
    const int64_t width = std::max(problem_.head_dim(), problem_.value_dim());
    for (const ForwardKernel& kernel : forward_kernels()) {
        if (kernel.element != *kind_of(problem_.q.type) || kernel.width < width) continue;
        kernel_ = &kernel;
        break;
    }
}

size_t ForwardPlan::workspace_size() const {
    const auto batches = static_cast<size_t>(problem_.batches());
    return aligned(sizeof(FaultRecord)) + aligned((batches + 1) * sizeof(int64_t)) +
           aligned(batches * sizeof(int32_t)) + sizeof(unsigned long long);
}

std::string ForwardPlan::explain_kernel() const {
    return message("SdpaAttributes: forward tiles of ", kernel_->tile_rows, " rows by ",
                   kernel_->block_keys, " keys, width up to ", kernel_->width, ": ",
                   kernel_->reason);
}

std::string ForwardPlan::kernel_id() const {
    return message("forward, tiles ", kernel_->tile_rows, "x", kernel_->block_keys, ", width ",
                   kernel_->width);
}

void ForwardPlan::execute(const plugin::ExecuteArgs& args) const {
    const SdpaProblem& p = problem_;
    if (!has_rows()) return;
    const bool has_keys = p.k.max_rows() > 0;
    ForwardParams params{};
    params.q = row_tensor(p.q, args.buffers, !has_keys);
    params.k = row_tensor(p.k, args.buffers, !has_keys);
    params.v = row_tensor(p.v, args.buffers, !has_keys);
    params.o = row_tensor(p.o, args.buffers, false);
    if (p.stats) params.stats = row_tensor(*p.stats, args.buffers, false);
    params.lengths_q = index_array(p.seq_len_q, args.buffers);
    params.lengths_k = index_array(p.seq_len_kv, args.buffers);
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
    params.scale = static_cast<float>(scale_ ? scale_->resolve(args.buffers) : p.scale);
    params.is_o_dense = !p.o.ragged;
    params.is_stats_dense = p.stats && !p.stats->ragged;
    auto* memory = static_cast<unsigned char*>(args.workspace);
    const auto batches = static_cast<size_t>(p.batches());
    params.schedule.faults = reinterpret_cast<FaultRecord*>(memory);
    params.schedule.owner = record_owner_;
    memory += aligned(sizeof(FaultRecord));
    params.schedule.first_tile = reinterpret_cast<int64_t*>(memory);
    memory += aligned((batches + 1) * sizeof(int64_t));
    params.schedule.batch_of_place = reinterpret_cast<int32_t*>(memory);
    memory += aligned(batches * sizeof(int32_t));
    params.schedule.next_work = reinterpret_cast<unsigned long long*>(memory);
    if (const char* error = kernel_->launch(params, args.stream)) {
        fail(ErrorCode::EXECUTION_FAILED, "[sdpa] the kernel did not start: ", error);
    }
}

std::optional<std::string> ForwardPlan::report_faults(const void* workspace,
                                                      hipdnnPluginStream_t stream) const {
    if (!has_rows()) return std::nullopt;  // nothing ran
    return report_first_fault(problem_, record_owner_, workspace, stream);
}

}  // namespace raggeddnn::hip
