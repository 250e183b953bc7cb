// A forward attention node on the CPU.
#pragma once

#include "kernels.hpp"
#include "operands.hpp"
#include "tasks.hpp"

namespace raggeddnn::cpu {

class ForwardPlan : public plugin::Plan {
public:
    // Throws INVALID_VALUE with the reason why the engine cannot run the node.
    ForwardPlan(const plugin::GraphView& graph, const schema::Node& node,
                const plugin::EngineConfig* config);

    size_t workspace_size() const override;
    std::string explain_kernel() const override;
    void execute(const plugin::ExecuteArgs& args) const override;

private:
    struct Workspace {
        plugin::Sequence* sequences;
        SequenceWork* work;
        char* scratch;  // of one thread after another
        size_t used;
    };
    struct Call;

    Workspace cut(WorkspaceCutter cutter) const;
    Call prepare(const plugin::Buffers& buffers, const plugin::Sequences& sequences) const;
    void run(const Call& call, const Task& task, void* scratch) const;
    void run_head(const Call& call, const SequenceWork& work, int64_t head, int64_t chunk,
                  void* scratch) const;
    int64_t rows_per_chunk() const { return kernels_.panel_rows * kernels_.forward_panels; }

    schema::SdpaProblem problem_;
    RuntimeOperands operands_;
    const KernelSet& kernels_;
    int threads_;             // that the workspace has room for
    int64_t thread_scratch_;  // bytes
};

}  // namespace raggeddnn::cpu
