// The operations of the reference engine: one builder each, in one table.
#pragma once

#include <memory>

#include "raggeddnn/plugin/engine.hpp"

namespace raggeddnn::reference {

// Reads and checks one node; throws raggeddnn::Exception with the reason when it cannot be run. The
// plan finds all its tensors, virtual ones too, in the buffers that it is given at execute.
using NodeBuilder = std::unique_ptr<plugin::Plan> (*)(const plugin::GraphView& graph,
                                                      const schema::Node& node);

std::unique_ptr<plugin::Plan> build_sdpa_forward(const plugin::GraphView& graph,
                                                 const schema::Node& node);

struct Op {
    schema::NodeAttributes type;
    NodeBuilder build;
};

// A row per operation.
inline constexpr Op OPS[] = {
    {schema::NodeAttributes::SdpaAttributes, build_sdpa_forward},
};

}  // namespace raggeddnn::reference
