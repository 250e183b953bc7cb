// A forward attention node on the GPU: what of it can be run, and its parameters at each execute.
#include "forward_plan.hpp"

#include <algorithm>

#include "operands.hpp"

namespace raggeddnn::hip {

ForwardPlan::ForwardPlan(const plugin::GraphView& graph, const schema::Node& node)
    : problem_(schema::read_sdpa_problem(graph, node)) {
    if (problem_.scale_uid) {
        scale_ = plugin::ScalarOperand::make(graph.tensor(*problem_.scale_uid));
    }
    const schema::SdpaProblem& p = problem_;
    check_operands(p, {&p.k, &p.v, &p.o}, {p.stats ? &*p.stats : nullptr});
    kernel_ = find_kernel(forward_kernels(), *kind_of(p.q.type),
                          std::max(p.head_dim(), p.value_dim()));
}

size_t ForwardPlan::workspace_size() const {
    WorkspaceCutter cutter(nullptr);
    cutter.take_schedule(problem_.batches());
    return cutter.used();
}

std::string ForwardPlan::explain_kernel() const {
    return message("SdpaAttributes: forward tiles of ", kernel_->tile_rows, " rows by ",
                   kernel_->block_keys, " keys, width up to ", kernel_->width, " (", kernel_->arch,
                   "): ", kernel_->reason);
}

void ForwardPlan::execute(const plugin::ExecuteArgs& args) const {
    const schema::SdpaProblem& p = problem_;
    if (p.batches() == 0 || p.q.max_rows() == 0) return;
    const double scale = scale_ ? scale_->resolve(args.buffers) : p.scale;
    ForwardParams params{attention_params(p, scale, args.buffers), {}};
    params.schedule = WorkspaceCutter(args.workspace).take_schedule(p.batches());
    if (const char* error = kernel_->launch(params, args.stream)) {
        fail(ErrorCode::EXECUTION_FAILED, "[sdpa] the kernel did not start: ", error);
    }
}

}  // namespace raggeddnn::hip
