// The CPU engine: attention on ragged and padded batches, on the threads and with the vector
// instructions of this machine.
#include "backward_plan.hpp"
#include "forward_plan.hpp"
#include "raggeddnn/plugin/export.hpp"
#include "raggeddnn/plugin/sdpa_engine.hpp"

namespace raggeddnn::cpu {
namespace {

class CpuEngine : public plugin::SdpaEngine<ForwardPlan, BackwardPlan> {
public:
    const char* name() const override { return "RAGGEDDNN_CPU_ENGINE"; }
};

}  // namespace
}  // namespace raggeddnn::cpu

RAGGEDDNN_ENGINE_PLUGIN("raggeddnn_cpu", RAGGEDDNN_VERSION, raggeddnn::cpu::CpuEngine)
