// Graphs and plans as JSON, with hipDNN's keys: a text written here is read there.
//
// The shape is not that of FlatBuffers' own JSON: types are lower-case, a node names its op under
// "type" and splits its fields into "inputs", "outputs" and an op-dependent rest (op_names.hpp).
// Numbers that JSON lacks are the strings "NaN", "Infinity" and "-Infinity"; which NaN is not kept.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "raggeddnn/base/api.hpp"
#include "raggeddnn/schema/execution_plan_generated.h"
#include "raggeddnn/schema/graph_generated.h"

namespace raggeddnn::schema {

// The tables must lie in a buffer that a blob has read. `indent` is the width of one level, or
// negative for one line. Names that are no UTF-8 are written with replacement characters.
RAGGEDDNN_API std::string graph_to_json(const Graph& graph, int indent = -1);
RAGGEDDNN_API std::string plan_to_json(const SerializedExecutionPlan& plan, int indent = -1);

// The inverse. Throws INVALID_VALUE with the path of what is wrong, what was got and what was
// expected; NOT_SUPPORTED for a graph made for a newer reader, before anything else in it is looked
// at. Whatever is accepted is read: a key that is not known here, a key given twice, a number that
// its field cannot hold and a text that is no UTF-8 are refused. A key that is missing leaves its
// field at the default, so that texts of older versions can be read; only what nothing works
// without must be there: "tensors", "nodes", a node's "type", and uids. null leaves an optional
// field unset.
//
// The bytes have passed the blob's verifier, guard and walk, as bytes from elsewhere do. Id and
// stamps are those of the text; none is added.
RAGGEDDNN_API std::vector<uint8_t> graph_bytes_from_json(std::string_view text);
RAGGEDDNN_API std::vector<uint8_t> plan_bytes_from_json(std::string_view text);
RAGGEDDNN_API GraphT graph_from_json(std::string_view text);

}  // namespace raggeddnn::schema
