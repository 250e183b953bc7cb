// A graph with other shapes: how an engine that compiles nothing by shape serves overridable ones.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/schema/graph_view.hpp"
#include "raggeddnn/tensor/shape_override.hpp"

namespace raggeddnn::plugin {

// The graph's bytes with those dims and strides. Throws INVALID_VALUE for a uid that is no tensor
// of the graph, for another rank, and for a scalar.
inline std::vector<uint8_t> apply_overrides(const schema::Graph& graph,
                                            std::span<const ShapeOverride> overrides) {
    const std::unique_ptr<schema::GraphT> tree(graph.UnPack());
    for (const ShapeOverride& o : overrides) {
        schema::TensorAttributesT* tensor = nullptr;
        for (const auto& t : tree->tensors) {
            if (t->uid == o.uid) tensor = t.get();
        }
        if (!tensor) invalid("override: uid ", o.uid, " is no tensor of the graph");
        if (o.dims.size() != tensor->dims.size() || o.strides.size() != tensor->dims.size()) {
            invalid("override of tensor '", tensor->name, "' (uid ", o.uid, ") has ", o.dims.size(),
                    " dims and ", o.strides.size(), " strides, expected ", tensor->dims.size());
        }
        if (tensor->is_runtime_pass_by_value || tensor->value.type != schema::TensorValue::NONE) {
            invalid("override of tensor '", tensor->name, "' (uid ", o.uid,
                    "), which is a scalar, expected a tensor in memory");
        }
        tensor->dims = o.dims;
        tensor->strides = o.strides;
    }
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(schema::CreateGraph(builder, tree.get()));
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

}  // namespace raggeddnn::plugin
