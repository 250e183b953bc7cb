// An engine over the C++ veneer whose every function throws: none of it may cross the ABI.
#include <stdexcept>

#include "raggeddnn/plugin/export.hpp"

namespace {

using namespace raggeddnn::plugin;

class ThrowingPlan : public Plan {
public:
    void execute(const ExecuteArgs&) const override { throw std::runtime_error("execute threw"); }
};

// Throws when asked about a graph named "fake throws", and at execute for "fake throws later".
class ThrowingEngine : public Engine {
public:
    const char* name() const override { return "VENEER_THROWS_ENGINE"; }
    std::optional<std::string> why_not(const GraphView& graph) const override {
        const std::string name = graph.table().name() ? graph.table().name()->str() : "";
        if (name == "fake throws") throw std::runtime_error("why_not threw");
        if (name == "fake throws later") return std::nullopt;
        return "the graph's name is not 'fake throws'";
    }
    std::unique_ptr<Plan> build(const GraphView&, const EngineConfig&) const override {
        return std::make_unique<ThrowingPlan>();
    }
    int32_t priority() const override { return -2000; }
};

}  // namespace

RAGGEDDNN_ENGINE_PLUGIN("veneer_throws", "1.2.3", ThrowingEngine)
