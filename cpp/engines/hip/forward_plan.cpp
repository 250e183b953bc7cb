// A forward attention node on the GPU: what of it can be run, and its parameters at each execute.
#include "forward_plan.hpp"

#include <algorithm>

#include "attention/sequence.hpp"

namespace raggeddnn::hip {

ForwardPlan::ForwardPlan(const plugin::GraphView& graph, const schema::Node& node)
    : problem_(schema::read_sdpa_problem(graph, node)) {
    if (problem_.scale_uid) {
        scale_ = plugin::ScalarOperand::make(graph.tensor(*problem_.scale_uid));
    }
    const schema::SdpaProblem& p = problem_;
    check_operands(p, {&p.k, &p.v, &p.o}, {p.stats ? &*p.stats : nullptr});
    kernel_ =
        find_kernel(forward_kernels(), *kind_of(p.q.type), std::max(p.head_dim(), p.value_dim()));
}

Schedule ForwardPlan::cut(WorkspaceCutter& cutter) const {
    FaultRecord* const faults = cutter.take_fault_record();
    Schedule schedule = cutter.take_schedule<Sequence>(problem_.batches(), problem_.q.max_rows(),
                                                       kernel_->tile_rows);
    schedule.faults = faults;
    schedule.owner = record_owner_;
    return schedule;
}

size_t ForwardPlan::workspace_size() const {
    WorkspaceCutter cutter(nullptr);
    cut(cutter);
    return cutter.used();
}

std::string ForwardPlan::explain_kernel() const {
    return message("SdpaAttributes: forward tiles of ", kernel_->tile_rows, " rows by ",
                   kernel_->block_keys, " keys, width up to ", kernel_->width, " (", kernel_->arch,
                   "): ", kernel_->reason);
}

std::string ForwardPlan::kernel_id() const {
    return message("forward, tiles ", kernel_->tile_rows, "x", kernel_->block_keys, ", width ",
                   kernel_->width);
}

void ForwardPlan::execute(const plugin::ExecuteArgs& args) const {
    const schema::SdpaProblem& p = problem_;
    if (!has_rows()) return;
    const double scale = scale_ ? scale_->resolve(args.buffers) : p.scale;
    ForwardParams params{attention_params(p, scale, args.buffers), {}};
    WorkspaceCutter cutter(args.workspace);
    params.schedule = cut(cutter);
    if (const char* error = kernel_->launch(params, args.stream)) {
        fail(ErrorCode::EXECUTION_FAILED, "[sdpa] the kernel did not start: ", error);
    }
}

std::optional<std::string> ForwardPlan::report_faults(const void* workspace,
                                                      hipdnnPluginStream_t stream) const {
    if (!has_rows()) return std::nullopt;  // nothing ran
    const auto tensor_of = [this](MetadataOf of) -> const schema::TensorGeometry& {
        return operand_of(problem_, of);
    };
    return report_first_fault(problem_, tensor_of, record_owner_, workspace, stream);
}

}  // namespace raggeddnn::hip
