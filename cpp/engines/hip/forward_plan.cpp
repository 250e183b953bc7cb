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
    return cutter.take_schedule<Sequence>(problem_.batches(), problem_.q.max_rows(),
                                          kernel_->tile_rows);
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

void ForwardPlan::execute(const plugin::ExecuteArgs& args) const {
    const schema::SdpaProblem& p = problem_;
    if (p.batches() == 0 || p.q.max_rows() == 0) return;
    const double scale = scale_ ? scale_->resolve(args.buffers) : p.scale;
    ForwardParams params{attention_params(p, scale, args.buffers), {}};
    WorkspaceCutter cutter(args.workspace);
    params.schedule = cut(cutter);
    if (const char* error = kernel_->launch(params, args.stream)) {
        fail(ErrorCode::EXECUTION_FAILED, "[sdpa] the kernel did not start: ", error);
    }
}

}  // namespace raggeddnn::hip
