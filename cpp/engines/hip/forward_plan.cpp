// A forward attention node on the GPU: what of it can be run, and its parameters at each execute.
#include "forward_plan.hpp"

#include "attention/sequence.hpp"

namespace raggeddnn::hip {

ForwardPlan::ForwardPlan(const plugin::GraphView& graph, const schema::Node& node,
                         const plugin::EngineConfig* config)
    : problem_(schema::read_sdpa_problem(graph, node)), operands_(graph, problem_) {
    const schema::SdpaProblem& p = problem_;
    check_operands(p, {&p.k, &p.v, &p.o}, {p.stats ? &*p.stats : nullptr});
    choice_ = choose_kernel(forward_kernels(), p);
    reuse_.emplace(graph, choice_.kernel->arch + kernel_id(), config);
}

Schedule ForwardPlan::cut(WorkspaceCutter& cutter) const {
    FaultRecord* const faults = cutter.take_fault_record();
    uint64_t* const names = cutter.take_schedule_names();
    Schedule schedule = cutter.take_schedule<Sequence>(problem_.batches(), problem_.q.max_rows(),
                                                       choice_.kernel->tile_rows);
    schedule.faults = faults;
    schedule.owner = record_owner_;
    schedule.made = names;
    schedule.overwritten = names + 1;
    return schedule;
}

size_t ForwardPlan::workspace_size() const {
    WorkspaceCutter cutter(nullptr);
    cut(cutter);
    return cutter.used();
}

std::string ForwardPlan::explain_kernel() const {
    const ForwardKernel& kernel = *choice_.kernel;
    return message("SdpaAttributes: forward tiles of ", kernel.tile_rows, " rows by ",
                   kernel.block_keys, " keys", choice_.explain());
}

std::string ForwardPlan::kernel_id() const {
    const ForwardKernel& kernel = *choice_.kernel;
    return message("forward, tiles ", kernel.tile_rows, "x", kernel.block_keys, choice_.id());
}

void ForwardPlan::execute(const plugin::ExecuteArgs& args) const {
    const schema::SdpaProblem& p = problem_;
    if (!has_rows()) return;
    ForwardParams params{operands_.resolve(p, args.buffers), {}};
    constexpr uint32_t MINUS_INFINITY = 0xff800000;
    params.cleared[0] = cleared_output(p.o, params.o, args.cleared);
    if (p.stats)
        params.cleared[1] = cleared_output(*p.stats, params.stats, args.cleared, MINUS_INFINITY);
    WorkspaceCutter cutter(args.workspace, "sdpa");
    params.schedule = cut(cutter);
    reuse_->name({&params.schedule}, params);
    if (const char* error = choice_.kernel->launch(params, args.stream)) {
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
