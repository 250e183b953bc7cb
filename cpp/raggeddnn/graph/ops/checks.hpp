// The rules of operations, checked on the wire's bytes by the code that engines read them with.
#pragma once

#include "raggeddnn/schema/graph_view.hpp"

namespace raggeddnn::graph_ops {

// Throws raggeddnn::Exception naming tensor, got and expected. An operation without rules here
// passes: it can be carried, and engines say whether they run it.
void check_node(const schema::GraphView& graph, const schema::Node& node);

}  // namespace raggeddnn::graph_ops
