// The last step before a graph leaves for engines or files: what it needs of readers and plugins is
// computed and stamped. The same computation filters plugins for graphs that come from elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "raggeddnn/plugin/api_version.hpp"
#include "raggeddnn/schema/graph_generated.h"

namespace raggeddnn::backend {

// Whether some tensor is a runtime scalar (with or without a default).
bool read_is_runtime_pass_by_value_enabled(const schema::Graph& graph);

// From the tensors, nodes and flags themselves, not from the stamps.
plugin::GraphFeatures read_graph_features(const schema::Graph& graph);

// Extensions of ours that the graph uses, by the names that engine traits list.
std::vector<std::string> extensions_used(const schema::Graph& graph);

// The highest of flags, stamp and tensors.
plugin::ApiVersion required_api_version(const schema::Graph& graph);

// 0; 1 with a runtime scalar; 2 with a field that a reader of 1 would lose.
uint32_t required_reader_version(const schema::Graph& graph);

// Mints the id if there is none, stamps, and packs.
std::vector<uint8_t> finalize(schema::GraphT graph);

}  // namespace raggeddnn::backend
