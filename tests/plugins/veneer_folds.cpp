// An engine that bakes its scalar into what it compiles and cannot read another at execute: it has
// to decline every graph whose scalar is runtime, with a default or not.
#include <algorithm>

#include "raggeddnn/plugin/export.hpp"
#include "raggeddnn/schema/sdpa_problem.hpp"

namespace {

using namespace raggeddnn;
using namespace raggeddnn::plugin;

// Fills o with the scale that was baked.
class FoldedPlan : public Plan {
public:
    FoldedPlan(const schema::SdpaProblem& problem, double scale)
        : uid_(problem.o.uid),
          elements_(problem.batches() * problem.heads() * problem.o.max_rows() *
                    problem.value_dim()),
          scale_(static_cast<float>(scale)) {}

    void execute(const ExecuteArgs& args) const override {
        auto* o = static_cast<float*>(args.buffers.find_device_buffer(uid_, "o"));
        std::fill(o, o + elements_, scale_);
    }

private:
    int64_t uid_;
    int64_t elements_;
    float scale_;
};

class FoldingEngine : public Engine {
public:
    const char* name() const override { return "FOLDS_SCALAR_ENGINE"; }
    int32_t priority() const override { return -1000; }

    std::optional<std::string> why_not(const GraphView& graph) const override {
        const std::string_view name =
            graph.table().name() ? graph.table().name()->string_view() : std::string_view();
        if (!name.starts_with("fold")) return "the graph's name does not begin with 'fold'";
        for (const TensorView& tensor : graph.tensors()) {
            if (tensor.is_runtime_pass_by_value()) {
                return tensor.label() +
                       " is a runtime scalar, expected a compile-time constant: "
                       "it is folded into the kernel";
            }
        }
        return std::nullopt;
    }

    std::unique_ptr<Plan> build(const GraphView& graph, const EngineConfig&) const override {
        const schema::SdpaProblem problem = schema::read_sdpa_problem(graph, graph.node(0));
        const double scale =
            problem.scale_uid ? *graph.tensor(*problem.scale_uid).value_as_double() : problem.scale;
        return std::make_unique<FoldedPlan>(problem, scale);
    }
};

}  // namespace

RAGGEDDNN_ENGINE_PLUGIN("veneer_folds", "1.0.0", FoldingEngine)
