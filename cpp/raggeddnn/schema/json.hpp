// Graphs and plans as JSON, with hipDNN's keys: a text written here is read there.
//
// The shape is not that of FlatBuffers' own JSON: types are lower-case, a node names its op under
// "type" and splits its fields into "inputs", "outputs" and an op-dependent rest (op_names.hpp).
// Numbers that JSON lacks are the strings "NaN", "Infinity" and "-Infinity".
#pragma once

#include <string>

#include "raggeddnn/base/api.hpp"
#include "raggeddnn/schema/execution_plan_generated.h"
#include "raggeddnn/schema/graph_generated.h"

namespace raggeddnn::schema {

// The tables must lie in a buffer that a blob has read. `indent` is the width of one level, or
// negative for one line. Names that are no UTF-8 are written with replacement characters.
RAGGEDDNN_API std::string graph_to_json(const Graph& graph, int indent = -1);
RAGGEDDNN_API std::string plan_to_json(const SerializedExecutionPlan& plan, int indent = -1);

}  // namespace raggeddnn::schema
