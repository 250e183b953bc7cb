// A whole graph: its nodes one after another, and memory for the tensors between them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops.hpp"
#include "raggeddnn/plugin/engine.hpp"
#include "raggeddnn/schema/tensor_geometry.hpp"

namespace raggeddnn::reference {

// A tensor between nodes. Dense: as many elements as its dims and strides span. Ragged: as many as
// its offsets say at each execute; they are in the variant pack, never made here.
struct VirtualTensor {
    int64_t uid = 0;
    std::string label;
    DataType type = DataType::NOT_SET;
    int64_t elements = 0;  // of a dense one
    std::optional<schema::RaggedOffsets> ragged;
};

class GraphPlan : public plugin::Plan {
public:
    // Throws raggeddnn::Exception with the reason why the graph cannot be run.
    explicit GraphPlan(const plugin::GraphView& graph);

    // Virtual tensors are allocated for each execute and filled with the sentinel of their type
    // before the first node runs, so that what no node wrote is seen.
    void execute(const plugin::ExecuteArgs& args) const override;
    void execute_with_overrides(const plugin::ExecuteArgs& args,
                                std::span<const ShapeOverride> overrides) const override;

private:
    void sort_nodes(const plugin::GraphView& graph, std::vector<BuiltNode> nodes);
    void add_virtual(const schema::TensorView& tensor, const plugin::GraphView& graph);

    std::vector<std::unique_ptr<plugin::Plan>> nodes_;  // each after those whose outputs it reads
    std::vector<VirtualTensor> virtuals_;
    std::vector<uint8_t> overridable_graph_;  // empty: shapes are fixed
};

}  // namespace raggeddnn::reference
