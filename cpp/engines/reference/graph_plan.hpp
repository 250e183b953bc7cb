// A whole graph: its nodes one after another, and memory for the tensors between them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops.hpp"
#include "raggeddnn/plugin/engine.hpp"

namespace raggeddnn::reference {

class GraphPlan : public plugin::Plan {
public:
    // Throws raggeddnn::Exception with the reason why the graph cannot be run.
    explicit GraphPlan(const plugin::GraphView& graph);

    std::string explain_kernel() const override { return kernels_; }
    // Virtual tensors are allocated for each execute, ragged ones by the offsets in the pack, and
    // filled with the sentinel of their type before the first node runs.
    void execute(const plugin::ExecuteArgs& args) const override;
    void execute_with_overrides(const plugin::ExecuteArgs& args,
                                std::span<const ShapeOverride> overrides) const override;

private:
    void sort_nodes(const plugin::GraphView& graph, std::vector<BuiltNode> nodes);

    std::vector<std::unique_ptr<plugin::Plan>> nodes_;  // each after those whose outputs it reads
    std::string kernels_;                               // a line for each node
    std::vector<int64_t> virtual_uids_;
    std::vector<uint8_t> graph_bytes_;        // empty: no virtual tensors
    std::vector<uint8_t> overridable_graph_;  // empty: shapes are fixed
};

}  // namespace raggeddnn::reference
