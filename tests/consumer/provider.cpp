// A third party's provider: fills o of an attention node with sevens.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "raggeddnn/plugin/engine.hpp"
#include "raggeddnn/plugin/export.hpp"

namespace {

using namespace raggeddnn::plugin;

class SevensPlan : public Plan {
public:
    explicit SevensPlan(const GraphView& graph) {
        uid_ = graph.node(0).attributes_as_SdpaAttributes()->o_tensor_uid();
        for (const int64_t dim : graph.tensor(uid_).dims()) count_ *= dim;
    }
    void execute(const ExecuteArgs& args) const override {
        std::fill_n(static_cast<float*>(args.buffers.find_device_buffer(uid_, "o")), count_, 7.0f);
    }

private:
    int64_t uid_ = 0;
    int64_t count_ = 1;
};

class SevensEngine : public Engine {
public:
    const char* name() const override { return "CONSUMER_SEVENS_ENGINE"; }
    const char* device() const override { return "cpu"; }
    int32_t priority() const override { return 1000; }
    std::optional<std::string> why_not(const GraphView& graph) const override {
        if (graph.node_count() == 1 && graph.node(0).attributes_as_SdpaAttributes()) {
            return std::nullopt;
        }
        return "expected one attention node";
    }
    std::unique_ptr<Plan> build(const GraphView& graph, const EngineConfig&) const override {
        return std::make_unique<SevensPlan>(graph);
    }
};

}  // namespace

RAGGEDDNN_ENGINE_PLUGIN("consumer", "0.0.1", SevensEngine)
