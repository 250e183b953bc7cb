// A forward attention node on the GPU.
#pragma once

#include <optional>
#include <string>

#include "kernels.hpp"
#include "operands.hpp"
#include "raggeddnn/plugin/engine.hpp"
#include "raggeddnn/schema/sdpa_problem.hpp"

namespace raggeddnn::hip {

class ForwardPlan : public plugin::Plan {
public:
    // Throws raggeddnn::Exception with the reason why the node cannot be run.
    ForwardPlan(const plugin::GraphView& graph, const schema::Node& node);

    size_t workspace_size() const override;
    std::string explain_kernel() const override;
    // Queues the work on the stream and does not wait for it.
    void execute(const plugin::ExecuteArgs& args) const override;

private:
    Schedule cut(WorkspaceCutter& cutter) const;

    schema::SdpaProblem problem_;
    std::optional<plugin::ScalarOperand> scale_;
    const ForwardKernel* kernel_ = nullptr;
};

}  // namespace raggeddnn::hip
