#include "graph_plan.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "raggeddnn/plugin/overrides.hpp"
#include "raggeddnn/plugin/ragged_blocks.hpp"
#include "raggeddnn/tensor/half.hpp"

namespace raggeddnn::reference {

namespace {

using plugin::GraphView;
using schema::TensorView;

std::string name_of(schema::NodeAttributes type) {
    const std::string name = schema::EnumNameNodeAttributes(type);
    return name.empty() ? "an operation of unknown type" : name;
}

BuiltNode build_node(const GraphView& graph, size_t index) {
    const schema::Node& node = graph.node(index);
    for (const Op& op : OPS) {
        if (op.type == node.attributes_type()) return op.build(graph, node);
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

// One past the farthest element; the tensors of nodes have been checked, those of none are not
// used.
int64_t span_of(const TensorView& tensor) {
    const std::vector<int64_t> dims = tensor.dims();
    const std::vector<int64_t> strides = tensor.strides();
    int64_t last = 0;
    for (size_t i = 0; i < dims.size() && i < strides.size(); ++i) {
        if (dims[i] <= 0) return 0;
        int64_t step = 0;
        if (__builtin_mul_overflow(dims[i] - 1, strides[i], &step) || step < 0 ||
            __builtin_add_overflow(last, step, &last) || last > (int64_t{1} << 48)) {
            invalid(tensor.label(), " is virtual and spans more than 2^48 elements");
        }
    }
    return last + 1;
}

template <class T>
std::vector<unsigned char> filled(int64_t elements, const T& value) {
    std::vector<unsigned char> memory(static_cast<size_t>(elements) * sizeof(T));
    for (int64_t i = 0; i < elements; ++i) {
        std::memcpy(memory.data() + static_cast<size_t>(i) * sizeof(T), &value, sizeof(T));
    }
    return memory;
}

// NaN, or the least integer: what a node left unwritten shows in every result that it reaches.
std::vector<unsigned char> sentinels(DataType type, int64_t elements) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    switch (type) {
        case DataType::DOUBLE: return filled(elements, nan);
        case DataType::FLOAT: return filled(elements, static_cast<float>(nan));
        case DataType::HALF: return filled(elements, half(nan));
        case DataType::BFLOAT16: return filled(elements, bfloat16(nan));
        case DataType::INT32: return filled(elements, std::numeric_limits<int32_t>::min());
        case DataType::INT64: return filled(elements, std::numeric_limits<int64_t>::min());
        case DataType::INT8: return filled(elements, std::numeric_limits<int8_t>::min());
        default:
            return filled(static_cast<int64_t>(bytes_of(type, static_cast<size_t>(elements))),
                          static_cast<unsigned char>(0xff));
    }
}

bool is_read(const std::vector<BuiltNode>& nodes, int64_t uid) {
    return std::any_of(nodes.begin(), nodes.end(), [uid](const BuiltNode& node) {
        return std::find(node.inputs.begin(), node.inputs.end(), uid) != node.inputs.end();
    });
}

int64_t elements_of(const VirtualTensor& tensor, const plugin::Buffers& buffers) {
    if (!tensor.ragged) return tensor.elements;
    const schema::IndexTensor& offsets = tensor.ragged->offsets;
    const int64_t last = plugin::IndexReader(offsets, buffers)[offsets.count - 1];
    int64_t elements = 0;
    if (last < 0 || __builtin_mul_overflow(last, tensor.ragged->multiplier, &elements) ||
        elements > (int64_t{1} << 48)) {
        invalid(offsets.label, ": index ", offsets.count - 1, " is ", last,
                ", expected 0 to 2^48 elements");
    }
    return elements;
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
        nodes.push_back(build_node(graph, i));
    }
    sort_nodes(graph, std::move(nodes));
    if (graph.table().is_override_shape_enabled()) {
        overridable_graph_ = plugin::apply_overrides(graph.table(), {});
    }
}

// Takes, again and again, the first node whose inputs are there; keeps an order that is one
// already.
void GraphPlan::sort_nodes(const GraphView& graph, std::vector<BuiltNode> nodes) {
    std::unordered_map<int64_t, size_t> writer;
    for (size_t i = 0; i < nodes.size(); ++i) {
        for (const int64_t uid : nodes[i].outputs) {
            if (!writer.emplace(uid, i).second) {
                invalid(graph.tensor(uid).label(), " is written by nodes ", writer[uid], " and ", i,
                        ", expected one");
            }
            if (graph.tensor(uid).is_virtual()) add_virtual(graph.tensor(uid), graph);
        }
    }
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

void GraphPlan::add_virtual(const TensorView& tensor, const GraphView& graph) {
    VirtualTensor v;
    v.uid = tensor.uid();
    v.label = tensor.label();
    v.type = tensor.data_type();
    if (const auto offsets_uid = tensor.ragged_offset_uid()) {
        const TensorView offsets = graph.tensor(*offsets_uid);
        if (offsets.is_virtual()) {
            invalid(offsets.label(), " is virtual, expected offsets of the variant pack");
        }
        const schema::OperandReader reader(graph, "graph");
        v.ragged = {reader.index_tensor("ragged offset of " + v.label, *offsets_uid,
                                        tensor.dims().at(0) + 1),
                    tensor.ragged_offset_multiplier()};
    } else {
        v.elements = span_of(tensor);
    }
    virtuals_.push_back(std::move(v));
}

void GraphPlan::execute(const plugin::ExecuteArgs& args) const {
    if (virtuals_.empty()) {
        for (const auto& node : nodes_) node->execute(args);
        return;
    }
    std::vector<hipdnnPluginDeviceBuffer_t> entries(args.buffers.begin(), args.buffers.end());
    std::vector<std::vector<unsigned char>> memory;
    for (const VirtualTensor& v : virtuals_) {
        memory.push_back(sentinels(v.type, elements_of(v, args.buffers)));
        memory.back().reserve(1);  // an empty one has an address, too
        entries.push_back({v.uid, memory.back().data()});
    }
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
