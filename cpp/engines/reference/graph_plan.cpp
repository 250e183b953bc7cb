#include "graph_plan.hpp"

#include <algorithm>

#include "raggeddnn/plugin/overrides.hpp"
#include "raggeddnn/plugin/tensor_factory.hpp"
#include "raggeddnn/schema/given_extents.hpp"

namespace raggeddnn::reference {

namespace {

using plugin::GraphView;
using schema::TensorView;

std::string name_of(schema::NodeAttributes type) {
    const std::string name = schema::EnumNameNodeAttributes(type);
    return name.empty() ? "an operation of unknown type" : name;
}

const Op& op_of(const GraphView& graph, size_t index) {
    const schema::Node& node = graph.node(index);
    for (const Op& op : OPS) {
        if (op.type == node.attributes_type()) return op;
    }
    std::string known;
    for (const Op& op : OPS) known += (known.empty() ? "" : ", ") + name_of(op.type);
    fail(ErrorCode::NOT_SUPPORTED, "node ", index, " is ", name_of(node.attributes_type()),
         ", expected one of ", known);
}

void check_compute_type(const GraphView& graph, size_t index) {
    const DataType of_node = schema::from_wire(graph.node(index).compute_data_type());
    const DataType of_graph = schema::from_wire(graph.table().compute_data_type());
    const DataType type = of_node == DataType::NOT_SET ? of_graph : of_node;
    if (type == DataType::NOT_SET || type == DataType::FLOAT || type == DataType::DOUBLE) return;
    invalid("compute data type of node ", index, " is ", to_string(type),
            ", expected FLOAT or DOUBLE");
}

bool is_read(const std::vector<BuiltNode>& nodes, int64_t uid) {
    return std::any_of(nodes.begin(), nodes.end(), [uid](const BuiltNode& node) {
        return std::find(node.inputs.begin(), node.inputs.end(), uid) != node.inputs.end();
    });
}

// Can it be allocated from the variant pack?
void check_virtual(const TensorView& tensor, const GraphView& graph) {
    const auto aux_uid = tensor.ragged_offset_uid();
    if (aux_uid && graph.tensor(*aux_uid).is_virtual()) {
        invalid(graph.tensor(*aux_uid).label(),
                " is virtual, expected offsets of the variant pack");
    }
}

}  // namespace

GraphPlan::GraphPlan(const GraphView& graph) {
    if (graph.table().is_runtime_default_override_enabled()) {
        invalid("overriding runtime defaults is enabled, expected disabled");
    }
    if (graph.node_count() == 0) invalid("graph has no nodes, expected at least 1");
    std::vector<BuiltNode> nodes;
    for (size_t i = 0; i < graph.node_count(); ++i) {
        check_compute_type(graph, i);
        const Op& op = op_of(graph, i);
        nodes.push_back(op.build(graph, graph.node(i)));
        kernels_ += message(i == 0 ? "" : "\n", name_of(op.type), ": ", op.kernel);
    }
    sort_nodes(graph, std::move(nodes));
    if (!virtual_uids_.empty()) graph_bytes_.assign(graph.bytes().begin(), graph.bytes().end());
    if (graph.table().is_override_shape_enabled()) {
        overridable_graph_ = plugin::apply_overrides(graph.table(), {});
    }
}

// Takes, again and again, the first node whose inputs are there; keeps an order that is one
// already.
void GraphPlan::sort_nodes(const GraphView& graph, std::vector<BuiltNode> nodes) {
    schema::Writers writer;
    for (size_t i = 0; i < nodes.size(); ++i) {
        for (const int64_t uid : nodes[i].outputs) {
            if (!writer.emplace(uid, i).second) {
                invalid(graph.tensor(uid).label(), " is written by nodes ", writer[uid], " and ", i,
                        ", expected one");
            }
            if (!graph.tensor(uid).is_virtual()) continue;
            check_virtual(graph.tensor(uid), graph);
            virtual_uids_.push_back(uid);
        }
    }
    schema::check_extents_are_given(graph, writer);
    for (const BuiltNode& node : nodes) {
        for (const int64_t uid : node.inputs) {
            if (graph.tensor(uid).is_virtual() && !writer.count(uid)) {
                invalid(graph.tensor(uid).label(), " is virtual and no node writes it");
            }
        }
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
        const bool is_used = std::any_of(
            nodes[i].outputs.begin(), nodes[i].outputs.end(),
            [&](int64_t uid) { return !graph.tensor(uid).is_virtual() || is_read(nodes, uid); });
        if (!is_used && !nodes[i].outputs.empty()) {
            invalid(graph.tensor(nodes[i].outputs.front()).label(),
                    " is virtual and no node reads it, expected set_output(true)");
        }
    }
    std::vector<bool> done(nodes.size(), false);
    const auto is_ready = [&](size_t i) {
        return std::all_of(nodes[i].inputs.begin(), nodes[i].inputs.end(), [&](int64_t uid) {
            const auto found = writer.find(uid);
            return found == writer.end() || done[found->second];
        });
    };
    while (nodes_.size() < nodes.size()) {
        size_t next = 0;
        while (next < nodes.size() && (done[next] || !is_ready(next))) ++next;
        if (next == nodes.size()) {
            invalid("graph has a cycle: no order lets every node run after its inputs");
        }
        done[next] = true;
        nodes_.push_back(std::move(nodes[next].plan));
    }
}

void GraphPlan::execute(const plugin::ExecuteArgs& args) const {
    if (virtual_uids_.empty()) {
        for (const auto& node : nodes_) node->execute(args);
        return;
    }
    plugin::VariantPack pack;
    for (const hipdnnPluginDeviceBuffer_t& entry : args.buffers) pack[entry.uid] = entry.ptr;
    const auto memory = plugin::populate_variant_pack_with_missing_virtual_tensors(
        GraphView(graph_bytes_.data(), graph_bytes_.size()), virtual_uids_, pack);
    std::vector<hipdnnPluginDeviceBuffer_t> entries;
    for (const auto& [uid, ptr] : pack) entries.push_back({uid, ptr});
    const plugin::Buffers all(entries.data(), static_cast<uint32_t>(entries.size()));
    for (const auto& node : nodes_) node->execute({all, args.workspace, args.stream});
}

void GraphPlan::execute_with_overrides(const plugin::ExecuteArgs& args,
                                       std::span<const ShapeOverride> overrides) const {
    const std::vector<uint8_t> bytes =
        plugin::apply_overrides(*schema::GetGraph(overridable_graph_.data()), overrides);
    GraphPlan(GraphView(bytes.data(), bytes.size())).execute(args);
}

}  // namespace raggeddnn::reference
