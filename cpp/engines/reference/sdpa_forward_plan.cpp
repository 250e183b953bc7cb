// The forward attention node of the reference engine: what it reads of the graph, and where its
// memory is.
#include <optional>

#include "ops.hpp"
#include "raggeddnn/plugin/dropout_source.hpp"
#include "raggeddnn/plugin/sequences.hpp"
#include "raggeddnn/schema/sdpa_problem.hpp"
#include "sdpa_checks.hpp"
#include "sdpa_forward.hpp"

namespace raggeddnn::reference {
namespace {

using plugin::Buffers;
using plugin::GraphView;
using plugin::Sequence;
using plugin::Sequences;
using schema::SdpaProblem;

class SdpaForwardPlan : public plugin::Plan {
public:
    SdpaForwardPlan(const GraphView& graph, const schema::Node& node)
        : problem_(schema::read_sdpa_problem(graph, node)) {
        if (problem_.scale_uid) {
            scale_ = plugin::ScalarOperand::make(graph.tensor(*problem_.scale_uid));
        }
        if (problem_.dropout) dropout_.emplace(graph, *problem_.dropout);
        check_readable(problem_);
        check_computable(problem_, {});
    }

    const SdpaProblem& problem() const { return problem_; }

    void execute(const plugin::ExecuteArgs& args) const override {
        const Buffers& buffers = args.buffers;
        const Sequences sequences(problem_, buffers);
        bool has_rows = false;
        bool has_keys = false;
        for (const Sequence& s : sequences) {
            has_rows |= s.valid_q > 0;
            has_keys |= s.valid_q > 0 && s.valid_kv > 0;
        }
        if (!has_rows) return;
        SdpaMemory memory;
        memory.o = buffers.find_device_buffer(problem_.o.uid, problem_.o.label);
        if (problem_.stats) {
            memory.stats = buffers.find_device_buffer(problem_.stats->uid, problem_.stats->label);
        }
        // Tensors without elements may come without memory.
        if (has_keys) {
            memory.q = buffers.find_device_buffer(problem_.q.uid, problem_.q.label);
            memory.k = buffers.find_device_buffer(problem_.k.uid, problem_.k.label);
            memory.v = buffers.find_device_buffer(problem_.v.uid, problem_.v.label);
            if (problem_.bias) {
                memory.bias = buffers.find_device_buffer(problem_.bias->uid, problem_.bias->label);
            }
        }
        const double scale = scale_ ? scale_->resolve(buffers) : problem_.scale;
        std::optional<plugin::Dropout> dropout;
        if (dropout_) dropout = dropout_->resolve(buffers);
        sdpa_forward(problem_, scale, sequences, memory, dropout);
    }

private:
    SdpaProblem problem_;
    std::optional<plugin::ScalarOperand> scale_;
    std::optional<plugin::DropoutSource> dropout_;
};

}  // namespace

BuiltNode build_sdpa_forward(const GraphView& graph, const schema::Node& node) {
    auto plan = std::make_unique<SdpaForwardPlan>(graph, node);
    const SdpaProblem& p = plan->problem();
    BuiltNode built;
    built.inputs = {p.q.uid, p.k.uid, p.v.uid};
    built.outputs = {p.o.uid};
    if (p.stats) built.outputs.push_back(p.stats->uid);
    add_shared_inputs(p, built);
    built.plan = std::move(plan);
    return built;
}

}  // namespace raggeddnn::reference
