// The reference engine: slow, obvious, always there.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph_plan.hpp"
#include "raggeddnn/plugin/export.hpp"

namespace raggeddnn::reference {
namespace {

class ReferenceEngine : public plugin::Engine {
public:
    const char* name() const override { return "RAGGEDDNN_REFERENCE_ENGINE"; }
    const char* device() const override { return "cpu"; }
    int32_t priority() const override { return -100; }
    std::vector<const char*> extensions() const override { return {"dstats"}; }
    std::vector<plugin::KnobInfo> knobs() const override {
        return {{"deterministic", "the same bits for the same inputs; always so here", 1}};
    }

    // Whatever a plan cannot read is the reason.
    std::optional<std::string> why_not(const plugin::GraphView& graph) const override {
        try {
            const GraphPlan plan(graph);
            return std::nullopt;
        } catch (const Exception& e) {
            return e.what();
        }
    }

    std::unique_ptr<plugin::Plan> build(const plugin::GraphView& graph,
                                        const plugin::EngineConfig&) const override {
        return std::make_unique<GraphPlan>(graph);
    }
};

}  // namespace
}  // namespace raggeddnn::reference

#ifndef RAGGEDDNN_VERSION
#define RAGGEDDNN_VERSION "0.0.0"
#endif

RAGGEDDNN_ENGINE_PLUGIN("raggeddnn_reference", RAGGEDDNN_VERSION,
                        raggeddnn::reference::ReferenceEngine)
