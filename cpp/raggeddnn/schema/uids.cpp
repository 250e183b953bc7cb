#include "raggeddnn/schema/uids.hpp"

#include "raggeddnn/schema/op_names.hpp"
#include "raggeddnn/schema/reflect.hpp"

namespace raggeddnn::schema {

std::vector<NodeTensorUse> tensor_uses(const Node& node) {
    std::vector<NodeTensorUse> uses;
    if (node.attributes() == nullptr) return uses;
    static const TypeInfo& node_type = Reflection::graph().type("Node");
    static const FieldInfo& attributes = *node_type.find("attributes");
    const View op = View(node_type, &node).object(attributes);
    const OpNames& names = op_names(op.type().name);
    for (const FieldInfo& field : op.type().fields) {
        if (!is_tensor_uid(op.type(), field)) continue;
        const bool output = is_output(names, field);
        if (field.type == reflection::BaseType::Vector) {
            const VectorView uids = op.vector(field);
            for (size_t i = 0; i < uids.size; ++i) {
                uses.push_back({field.name, uids.integer(i), output});
            }
        } else if (!field.optional || op.has(field)) {
            uses.push_back({field.name, op.integer(field), output});
        }
    }
    return uses;
}

std::vector<NodeTensorUse> tensor_uses(const NodeT& node) {
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(CreateNode(builder, &node));
    return tensor_uses(*flatbuffers::GetRoot<Node>(builder.GetBufferPointer()));
}

void check_extents_are_given(const GraphView& graph) {
    Writers writers;
    for (size_t i = 0; i < graph.node_count(); ++i) {
        for (const NodeTensorUse& use : tensor_uses(graph.node(i))) {
            if (use.is_output) writers.emplace(use.uid, i);
        }
    }
    check_extents_are_given(graph, writers);
}

}  // namespace raggeddnn::schema
