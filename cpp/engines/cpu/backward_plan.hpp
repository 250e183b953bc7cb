// A backward attention node on the CPU. A task is a chunk of the keys of a group of query heads: it
// sums the gradients of these keys over all rows, and adds to the gradients of the rows.
#pragma once

#include "chunk_order.hpp"
#include "kernels.hpp"
#include "operands.hpp"
#include "raggeddnn/schema/sdpa_backward_problem.hpp"
#include "tasks.hpp"

namespace raggeddnn::cpu {

class BackwardPlan : public plugin::Plan {
public:
    // Throws INVALID_VALUE with the reason why the engine cannot run the node.
    BackwardPlan(const plugin::GraphView& graph, const schema::Node& node,
                 const plugin::EngineConfig* config);

    size_t workspace_size() const override;
    std::string explain_kernel() const override;
    void execute(const plugin::ExecuteArgs& args) const override;

private:
    struct Workspace {
        plugin::Sequence* sequences;
        SequenceWork* work;
        TaskProgress* progress;
        SlotOwner* slots;
        float* dq_sums;  // of one slot after another
        char* scratch;   // of one thread after another
        size_t used;
    };
    // Memory of one thread.
    struct ThreadMemory {
        KeyGradients sums;
        void* scratch;
    };
    struct Call;

    Workspace cut(WorkspaceCutter cutter) const;
    Call prepare(const plugin::Buffers& buffers, const plugin::Sequences& sequences,
                 const ChunkOrder& order, float* dq_sums) const;
    void run(const Call& call, const Task& task, const ThreadMemory& memory) const;
    void run_unit(const Call& call, const Task& task, int64_t unit,
                  const ThreadMemory& memory) const;
    void run_head(const Call& call, const Task& task, int64_t head, const KeyChunk& chunk,
                  const ThreadMemory& memory) const;
    BackwardHead head_of(const Call& call, int64_t batch, int64_t head) const;
    void run_bias(const Call& call, int threads, const Workspace& workspace) const;
    ThreadMemory memory_of(const Workspace& workspace, int thread) const;
    void store_keys(const Call& call, const plugin::Sequence& sequence, int64_t head,
                    const KeyChunk& chunk, const ThreadMemory& memory) const;
    void clear_rest(const Call& call, const plugin::Sequence& sequence, int64_t first_head) const;
    int64_t dk_floats() const { return CHUNK_KEYS * dk_stride_; }
    int64_t dv_floats() const { return CHUNK_KEYS * dv_stride_; }

    schema::SdpaBackwardProblem problem_;
    RuntimeOperands operands_;
    const KernelSet& kernels_;
    int threads_;        // that the workspace has room for
    int64_t group_;      // query heads of a unit: they share key and value heads
    int64_t dk_stride_;  // floats
    int64_t dv_stride_;
    int64_t slot_floats_;  // 0: sums are made in dq itself
    int64_t slots_;
    int64_t thread_scratch_;  // bytes, with the sums over a chunk
};

}  // namespace raggeddnn::cpu
