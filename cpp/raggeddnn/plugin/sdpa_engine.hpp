// An engine that runs single attention nodes: a plan class for each pass, whose constructors throw
// the reason why they cannot run a node. They take the graph, the node and a const EngineConfig*,
// null where it is only asked whether they can.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/plugin/engine.hpp"

namespace raggeddnn::plugin {

template <class ForwardPlan, class BackwardPlan>
class SdpaEngine : public Engine {
public:
    std::vector<const char*> extensions() const override { return {"dstats"}; }
    std::vector<KnobInfo> knobs() const override {
        return {{"deterministic", "the same bits for the same inputs; always so here", 1}};
    }

    std::optional<std::string> why_not(const GraphView& graph) const override {
        if (auto why = why_unavailable()) return why;
        try {
            make(graph, nullptr);
            return std::nullopt;
        } catch (const Exception& e) {
            return e.what();
        }
    }

    std::unique_ptr<Plan> build(const GraphView& graph, const EngineConfig& config) const override {
        return make(graph, &config);
    }

private:
    static std::unique_ptr<Plan> make(const GraphView& graph, const EngineConfig* config) {
        if (graph.node_count() != 1) {
            invalid("graph has ", graph.node_count(), " nodes, expected 1");
        }
        if (graph.table().is_override_shape_enabled()) {
            invalid("overridable shapes are enabled, expected disabled");
        }
        const schema::Node& node = graph.node(0);
        if (node.attributes_as_SdpaBackwardAttributes()) {
            return std::make_unique<BackwardPlan>(graph, node, config);
        }
        return std::make_unique<ForwardPlan>(graph, node, config);
    }
};

}  // namespace raggeddnn::plugin
