// The smallest plugin over the C++ veneer: one engine, which refuses every graph with a reason, so
// that the whole of the exported ABI is there and nothing can run on it by accident.
#include "raggeddnn/plugin/export.hpp"

namespace {

using namespace raggeddnn::plugin;

class ExplainingEngine : public Engine {
public:
    const char* name() const override { return "VENEER_EXPLAINS_ENGINE"; }
    std::optional<std::string> why_not(const GraphView& graph) const override {
        return "the graph has " + std::to_string(graph.node_count()) + " node, expected 1000";
    }
    std::unique_ptr<Plan> build(const GraphView&, const EngineConfig&) const override {
        return nullptr;
    }
};

// Its reason must not be taken for the other's.
class AnotherEngine : public ExplainingEngine {
public:
    const char* name() const override { return "VENEER_EXPLAINS_TOO_ENGINE"; }
    std::optional<std::string> why_not(const GraphView&) const override { return "it is Tuesday"; }
};

}  // namespace

RAGGEDDNN_ENGINE_PLUGIN("veneer_explains", "1.2.3", ExplainingEngine, AnotherEngine)
