// A backward attention node on the GPU.
#pragma once

#include <optional>
#include <string>

#include "fault_report.hpp"
#include "kernels.hpp"
#include "operands.hpp"
#include "raggeddnn/plugin/engine.hpp"
#include "raggeddnn/schema/sdpa_backward_problem.hpp"

namespace raggeddnn::hip {

class BackwardPlan : public plugin::Plan {
public:
    // Throws raggeddnn::Exception with the reason why the node cannot be run.
    BackwardPlan(const plugin::GraphView& graph, const schema::Node& node,
                 const plugin::EngineConfig* config);

    size_t workspace_size() const override;
    std::string explain_kernel() const override;
    std::string kernel_id() const override;
    // Queues the work on the stream and does not wait for it.
    void execute(const plugin::ExecuteArgs& args) const override;
    bool clears_outputs() const override { return has_rows() && has_keys(); }
    std::optional<std::string> report_faults(const void* workspace,
                                             hipdnnPluginStream_t stream) const override;

private:
    bool has_rows() const { return problem_.batches() > 0 && problem_.q.max_rows() > 0; }
    bool has_keys() const { return problem_.batches() > 0 && problem_.k.max_rows() > 0; }
    bool has_bias_gradient() const;
    void check_workspace() const;
    void cut(WorkspaceCutter& cutter, BackwardParams& params) const;

    schema::SdpaBackwardProblem problem_;
    RuntimeOperands operands_;
    KernelChoice<BackwardKernel> choice_;
    std::optional<ScheduleReuse> reuse_;  // set by the constructor, when it knows the kernel
    uint64_t record_owner_ = new_record_owner();
};

}  // namespace raggeddnn::hip
