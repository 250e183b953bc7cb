// A backward attention node on the GPU: what of it can be run, and its parameters at each execute.
#include "backward_plan.hpp"

#include <algorithm>

#include "attention/backward_sequence.hpp"

namespace raggeddnn::hip {

BackwardPlan::BackwardPlan(const plugin::GraphView& graph, const schema::Node& node)
    : problem_(schema::read_sdpa_backward_problem(graph, node)) {
    if (problem_.scale_uid) {
        scale_ = plugin::ScalarOperand::make(graph.tensor(*problem_.scale_uid));
    }
    const schema::SdpaBackwardProblem& p = problem_;
    check_operands(p, {&p.k, &p.v, &p.o, &p.d_o, &p.dq, &p.dk, &p.dv},
                   {&*p.stats, p.d_stats ? &*p.d_stats : nullptr});
    if (p.k.heads() != p.v.heads()) {
        invalid("[", p.op, "] ", p.v.label, " has ", p.v.heads(), " heads, expected ", p.k.heads(),
                " as ", p.k.label);
    }
    kernel_ =
        find_kernel(backward_kernels(), *kind_of(p.q.type), std::max(p.head_dim(), p.value_dim()));
    if (!kernel_) {
        invalid("[", p.op, "] no backward kernel is as wide as head_dim ", p.head_dim(),
                " and value dim ", p.value_dim());
    }
}

void BackwardPlan::cut(WorkspaceCutter& cutter, BackwardParams& params) const {
    const schema::SdpaBackwardProblem& p = problem_;
    const int64_t rows = p.q.max_rows();
    FaultRecord* const faults = cutter.take_fault_record();
    params.schedule_q =
        cutter.take_schedule<BackwardSequence>(p.batches(), rows, kernel_->tile_rows);
    params.schedule_q.faults = faults;
    params.schedule_q.owner = record_owner_;
    params.schedule_k =
        cutter.take_schedule<BackwardSequence>(p.batches(), p.k.max_rows(), kernel_->tile_keys);
    params.delta = cutter.take<float>(static_cast<size_t>(p.batches() * p.heads() * rows));
}

size_t BackwardPlan::workspace_size() const {
    BackwardParams params{};
    WorkspaceCutter cutter(nullptr);
    cut(cutter, params);
    return cutter.used();
}

std::string BackwardPlan::explain_kernel() const {
    return message("SdpaBackwardAttributes: tiles of ", kernel_->tile_rows, " rows by ",
                   kernel_->block_keys, " keys for dQ, of ", kernel_->tile_keys, " keys by ",
                   kernel_->block_rows, " rows for dK and dV, width up to ", kernel_->width, " (",
                   kernel_->arch, "): ", kernel_->reason);
}

std::string BackwardPlan::kernel_id() const {
    return message("backward, tiles ", kernel_->tile_rows, "x", kernel_->block_keys, " and ",
                   kernel_->tile_keys, "x", kernel_->block_rows, ", width ", kernel_->width);
}

void BackwardPlan::execute(const plugin::ExecuteArgs& args) const {
    const schema::SdpaBackwardProblem& p = problem_;
    if (!has_work()) return;
    const bool has_rows = p.q.max_rows() > 0;
    const bool has_keys = p.k.max_rows() > 0;
    const double scale = scale_ ? scale_->resolve(args.buffers) : p.scale;
    BackwardParams params{};
    static_cast<AttentionParams&>(params) = attention_params(p, scale, args.buffers);
    params.d_o = row_tensor(p.d_o, args.buffers, has_rows && has_keys);
    if (p.d_stats) params.d_stats = row_tensor(*p.d_stats, args.buffers, has_rows && has_keys);
    params.d_q = row_tensor(p.dq, args.buffers, has_rows);
    params.d_k = row_tensor(p.dk, args.buffers, has_keys);
    params.d_v = row_tensor(p.dv, args.buffers, has_keys);
    WorkspaceCutter cutter(args.workspace);
    cut(cutter, params);
    if (const char* error = kernel_->launch(params, args.stream)) {
        fail(ErrorCode::EXECUTION_FAILED, "[sdpa_backward] the kernel did not start: ", error);
    }
}

std::optional<std::string> BackwardPlan::report_faults(const void* workspace,
                                                       hipdnnPluginStream_t stream) const {
    if (!has_work()) return std::nullopt;  // nothing ran
    const auto tensor_of = [this](MetadataOf of) -> const schema::TensorGeometry& {
        switch (of) {
            case MetadataOf::D_O: return problem_.d_o;
            case MetadataOf::D_STATS: return *problem_.d_stats;
            case MetadataOf::D_Q: return problem_.dq;
            case MetadataOf::D_K: return problem_.dk;
            case MetadataOf::D_V: return problem_.dv;
            default: return operand_of(problem_, of);
        }
    };
    return report_first_fault(problem_, tensor_of, record_owner_, workspace, stream);
}

}  // namespace raggeddnn::hip
