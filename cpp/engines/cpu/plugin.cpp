// The CPU engine: attention on ragged and padded batches, on the threads and with the vector
// instructions of this machine.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backward_plan.hpp"
#include "forward_plan.hpp"
#include "raggeddnn/plugin/export.hpp"
#include "raggeddnn/plugin/sdpa_operands.hpp"

namespace raggeddnn::cpu {
namespace {

class CpuEngine : public plugin::Engine {
public:
    const char* name() const override { return "RAGGEDDNN_CPU_ENGINE"; }
    const char* device() const override { return "cpu"; }
    std::vector<const char*> extensions() const override { return {"dstats"}; }
    std::vector<plugin::KnobInfo> knobs() const override {
        return {{"deterministic", "the same bits for the same inputs; always so here", 1}};
    }

    std::optional<std::string> why_not(const plugin::GraphView& graph) const override {
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
        plugin::check_single_node(graph);
        const schema::Node& node = graph.node(0);
        if (node.attributes_as_SdpaBackwardAttributes()) {
            return std::make_unique<BackwardPlan>(graph, node);
        }
        return std::make_unique<ForwardPlan>(graph, node);
    }
};

}  // namespace
}  // namespace raggeddnn::cpu

RAGGEDDNN_ENGINE_PLUGIN("raggeddnn_cpu", RAGGEDDNN_VERSION, raggeddnn::cpu::CpuEngine)
