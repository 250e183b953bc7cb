// The GPU engine: attention on ragged and padded batches, with offsets and lengths in device
// memory.
#include <optional>
#include <string>
#include <vector>

#include "backward_plan.hpp"
#include "forward_plan.hpp"
#include "kernels.hpp"
#include "raggeddnn/plugin/export.hpp"
#include "raggeddnn/plugin/sdpa_engine.hpp"

namespace raggeddnn::hip {
namespace {

class HipEngine : public plugin::SdpaEngine<ForwardPlan, BackwardPlan> {
public:
    const char* name() const override { return engine_name(); }
    const char* device() const override { return device_kind(); }
    int32_t priority() const override { return engine_priority(); }
    std::vector<plugin::KnobInfo> knobs() const override {
        auto all = SdpaEngine::knobs();
        all.push_back(ScheduleReuse::KNOB);
        return all;
    }
    std::string target() const override {
        return std::string(device_kind()) + "/" + device_architecture();
    }

    std::optional<std::string> why_unavailable() const override {
        std::string why;
        if (is_device_usable(why)) return std::nullopt;
        return why;
    }
};

}  // namespace
}  // namespace raggeddnn::hip

RAGGEDDNN_ENGINE_PLUGIN("raggeddnn_hip", RAGGEDDNN_VERSION, raggeddnn::hip::HipEngine)
