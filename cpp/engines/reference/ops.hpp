// The operations of the reference engine: one builder each, in one table.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "raggeddnn/plugin/engine.hpp"

namespace raggeddnn::reference {

// A node ready to run, and which tensors it reads and writes (without runtime scalars and offsets,
// which come from the variant pack).
struct BuiltNode {
    std::unique_ptr<plugin::Plan> plan;
    std::vector<int64_t> inputs;
    std::vector<int64_t> outputs;
};

// Reads and checks one node; throws raggeddnn::Exception with the reason when it cannot be run. The
// plan finds all its tensors, virtual ones too, in the buffers that it is given at execute.
using NodeBuilder = BuiltNode (*)(const plugin::GraphView& graph, const schema::Node& node);

BuiltNode build_sdpa_forward(const plugin::GraphView& graph, const schema::Node& node);

struct Op {
    schema::NodeAttributes type;
    NodeBuilder build;
};

// A row per operation.
inline constexpr Op OPS[] = {
    {schema::NodeAttributes::SdpaAttributes, build_sdpa_forward},
};

}  // namespace raggeddnn::reference
