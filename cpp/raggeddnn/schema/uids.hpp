// Which tensors a node reads and writes, for any op, without a list per op.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "raggeddnn/schema/given_extents.hpp"
#include "raggeddnn/schema/graph_generated.h"

namespace raggeddnn::schema {

struct NodeTensorUse {
    std::string field;  // "q_tensor_uid"; a vector of uids gives one entry for each element
    int64_t uid = 0;
    bool is_output = false;
};

// In slot order. A field that is not nullable is always listed: FlatBuffers leaves out a uid of 0,
// so its absence means 0. A node without attributes uses nothing.
std::vector<NodeTensorUse> tensor_uses(const Node& node);
std::vector<NodeTensorUse> tensor_uses(const NodeT& node);

// check_extents_are_given with the writers that tensor_uses finds.
void check_extents_are_given(const GraphView& graph);

}  // namespace raggeddnn::schema
