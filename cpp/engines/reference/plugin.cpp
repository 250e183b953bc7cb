// The reference engine: slow, obvious, always there.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "raggeddnn/plugin/engine.hpp"
#include "raggeddnn/plugin/export.hpp"
#include "raggeddnn/plugin/overrides.hpp"
#include "raggeddnn/plugin/sequences.hpp"
#include "raggeddnn/schema/sdpa_problem.hpp"
#include "sdpa_forward.hpp"
#include "typed_memory.hpp"

namespace raggeddnn::reference {
namespace {

using plugin::Buffers;
using plugin::GraphView;
using plugin::Sequence;
using plugin::Sequences;
using schema::IndexTensor;
using schema::SdpaProblem;
using schema::TensorGeometry;

class SdpaPlan : public plugin::Plan {
public:
    explicit SdpaPlan(const GraphView& graph)
        : problem_(schema::read_sdpa_problem(graph, graph.node(0))) {
        if (graph.table().is_override_shape_enabled()) {
            overridable_graph_ = plugin::apply_overrides(graph.table(), {});
        }
        if (problem_.scale_uid) {
            scale_ = plugin::ScalarOperand::make(graph.tensor(*problem_.scale_uid));
        }
    }

    const SdpaProblem& problem() const { return problem_; }

    void execute(const plugin::ExecuteArgs& args) const override {
        const Buffers& buffers = args.buffers;
        const Sequences sequences(problem_, buffers);
        bool has_rows = false;
        bool has_keys = false;
        for (const Sequence& s : sequences) {
            has_rows |= s.valid_q > 0;
            has_keys |= s.valid_q > 0 && s.valid_kv > 0;
        }
        if (!has_rows) return;
        SdpaMemory memory;
        memory.o = buffers.find_device_buffer(problem_.o.uid, problem_.o.label);
        if (problem_.stats) {
            memory.stats = buffers.find_device_buffer(problem_.stats->uid, problem_.stats->label);
        }
        // Tensors without elements may come without memory.
        if (has_keys) {
            memory.q = buffers.find_device_buffer(problem_.q.uid, problem_.q.label);
            memory.k = buffers.find_device_buffer(problem_.k.uid, problem_.k.label);
            memory.v = buffers.find_device_buffer(problem_.v.uid, problem_.v.label);
            if (problem_.bias) {
                memory.bias = buffers.find_device_buffer(problem_.bias->uid, problem_.bias->label);
            }
        }
        const double scale = scale_ ? scale_->resolve(buffers) : problem_.scale;
        sdpa_forward(problem_, scale, sequences, memory);
    }

    void execute_with_overrides(const plugin::ExecuteArgs& args,
                                std::span<const ShapeOverride> overrides) const override {
        const std::vector<uint8_t> bytes =
            plugin::apply_overrides(*schema::GetGraph(overridable_graph_.data()), overrides);
        SdpaPlan(GraphView(bytes.data(), bytes.size())).execute(args);
    }

private:
    SdpaProblem problem_;
    std::vector<uint8_t> overridable_graph_;  // empty: shapes are fixed
    std::optional<plugin::ScalarOperand> scale_;
};

std::optional<std::string> why_not_tensor(const TensorGeometry& tensor) {
    if (!is_computable(tensor.type)) {
        return message("[sdpa] ", tensor.label, " has data type ", to_string(tensor.type),
                       ", expected DOUBLE, FLOAT, HALF or BFLOAT16");
    }
    if (tensor.is_virtual) {
        return message("[sdpa] ", tensor.label, " is virtual, expected a tensor in memory");
    }
    return std::nullopt;
}

std::optional<std::string> why_not_operands(const SdpaProblem& p) {
    for (const TensorGeometry* tensor :
         {&p.q, &p.k, &p.v, &p.o, p.stats ? &*p.stats : nullptr, p.bias ? &*p.bias : nullptr}) {
        if (!tensor) continue;
        if (const auto reason = why_not_tensor(*tensor)) return reason;
        if (tensor->ragged && tensor->ragged->offsets.is_virtual) {
            return message("[sdpa] ", tensor->ragged->offsets.label,
                           " is virtual, expected a tensor in memory");
        }
    }
    for (const auto* lengths : {&p.seq_len_q, &p.seq_len_kv}) {
        if (*lengths && (*lengths)->is_virtual) {
            return message("[sdpa] ", (*lengths)->label,
                           " is virtual, expected a tensor in memory");
        }
    }
    return std::nullopt;
}

std::optional<std::string> why_not_compute_type(const GraphView& graph) {
    const DataType of_node = schema::from_wire(graph.node(0).compute_data_type());
    const DataType of_graph = schema::from_wire(graph.table().compute_data_type());
    const DataType type = of_node == DataType::NOT_SET ? of_graph : of_node;
    if (type == DataType::NOT_SET || type == DataType::FLOAT || type == DataType::DOUBLE) {
        return std::nullopt;
    }
    return message("compute data type is ", to_string(type), ", expected FLOAT or DOUBLE");
}

std::optional<std::string> why_not_sdpa(const GraphView& graph) {
    try {
        const SdpaPlan plan(graph);  // whatever it cannot read is the reason
        const SdpaProblem& problem = plan.problem();
        if (!problem.unread.empty()) {
            return message("[sdpa] attribute ", problem.unread.front(), " is set, expected unset");
        }
        return why_not_operands(problem);
    } catch (const Exception& e) {
        return e.what();
    }
}

class ReferenceEngine : public plugin::Engine {
public:
    const char* name() const override { return "RAGGEDDNN_REFERENCE_ENGINE"; }
    const char* device() const override { return "cpu"; }
    int32_t priority() const override { return -100; }
    std::vector<plugin::KnobInfo> knobs() const override {
        return {{"deterministic", "the same bits for the same inputs; always so here", 1}};
    }

    std::optional<std::string> why_not(const GraphView& graph) const override {
        if (graph.table().is_runtime_default_override_enabled()) {
            return "overriding runtime defaults is enabled, expected disabled";
        }
        for (size_t i = 0; i < graph.node_count(); ++i) {
            const auto type = graph.node(i).attributes_type();
            if (type == schema::NodeAttributes::SdpaAttributes) continue;
            const std::string op = schema::EnumNameNodeAttributes(type);
            return message("node ", i, " is ", op.empty() ? "of unknown type" : op,
                           ", expected SdpaAttributes");
        }
        if (graph.node_count() != 1) {
            return message("graph has ", graph.node_count(), " nodes, expected 1");
        }
        if (const auto reason = why_not_compute_type(graph)) return reason;
        return why_not_sdpa(graph);
    }

    std::unique_ptr<plugin::Plan> build(const GraphView& graph,
                                        const plugin::EngineConfig&) const override {
        return std::make_unique<SdpaPlan>(graph);
    }
};

}  // namespace
}  // namespace raggeddnn::reference

#ifndef RAGGEDDNN_VERSION
#define RAGGEDDNN_VERSION "0.0.0"
#endif

RAGGEDDNN_ENGINE_PLUGIN("raggeddnn_reference", RAGGEDDNN_VERSION,
                        raggeddnn::reference::ReferenceEngine)
