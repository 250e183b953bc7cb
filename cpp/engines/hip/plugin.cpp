// The GPU engine: attention on ragged and padded batches, with offsets and lengths in device
// memory.
#include <memory>
#include <optional>
#include <string>

#include "backward_plan.hpp"
#include "forward_plan.hpp"
#include "kernels.hpp"
#include "raggeddnn/plugin/export.hpp"

namespace raggeddnn::hip {
namespace {

class HipEngine : public plugin::Engine {
public:
    const char* name() const override { return engine_name(); }
    const char* device() const override { return device_kind(); }
    int32_t priority() const override { return engine_priority(); }
    std::vector<const char*> extensions() const override { return {"dstats"}; }
    std::string target() const override {
        return std::string(device_kind()) + "/" + device_architecture();
    }
    std::vector<plugin::KnobInfo> knobs() const override {
        return {{"deterministic", "the same bits for the same inputs; always so here", 1}};
    }

    std::optional<std::string> why_unavailable() const override {
        std::string why;
        if (is_device_usable(why)) return std::nullopt;
        return why;
    }

    std::optional<std::string> why_not(const plugin::GraphView& graph) const override {
        if (auto why = why_unavailable()) return why;
        try {
            make(graph);
            return std::nullopt;
        } catch (const Exception& e) {
            return e.what();
        }
    }

    std::unique_ptr<plugin::Plan> build(const plugin::GraphView& graph,
                                        const plugin::EngineConfig&) const override {
        return make(graph);
    }

private:
    static std::unique_ptr<plugin::Plan> make(const plugin::GraphView& graph) {
        if (graph.node_count() != 1) {
            invalid("graph has ", graph.node_count(), " nodes, expected 1");
        }
        if (graph.table().is_runtime_default_override_enabled()) {
            invalid("overriding runtime defaults is enabled, expected disabled");
        }
        if (graph.table().is_override_shape_enabled()) {
            invalid("overridable shapes are enabled, expected disabled");
        }
        const schema::Node& node = graph.node(0);
        if (node.attributes_as_SdpaBackwardAttributes()) {
            return std::make_unique<BackwardPlan>(graph, node);
        }
        return std::make_unique<ForwardPlan>(graph, node);
    }
};

}  // namespace
}  // namespace raggeddnn::hip

RAGGEDDNN_ENGINE_PLUGIN("raggeddnn_hip", RAGGEDDNN_VERSION, raggeddnn::hip::HipEngine)
