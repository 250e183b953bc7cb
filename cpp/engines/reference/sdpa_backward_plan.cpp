// The backward attention node of the reference engine: what it reads of the graph, and where its
// memory is.
#include <optional>

#include "ops.hpp"
#include "raggeddnn/plugin/dropout_source.hpp"
#include "raggeddnn/plugin/sequences.hpp"
#include "raggeddnn/schema/sdpa_backward_problem.hpp"
#include "sdpa_backward.hpp"
#include "sdpa_checks.hpp"

namespace raggeddnn::reference {
namespace {

using plugin::Buffers;
using plugin::GraphView;
using plugin::Sequence;
using plugin::Sequences;
using schema::SdpaBackwardProblem;
using schema::TensorGeometry;

class SdpaBackwardPlan : public plugin::Plan {
public:
    SdpaBackwardPlan(const GraphView& graph, const schema::Node& node)
        : problem_(schema::read_sdpa_backward_problem(graph, node)) {
        if (problem_.scale_uid) {
            scale_ = plugin::ScalarOperand::make(graph.tensor(*problem_.scale_uid));
        }
        if (problem_.dropout) dropout_.emplace(graph, *problem_.dropout);
        check_readable(problem_);
        check_computable(problem_, {&problem_.d_o, &problem_.dq, &problem_.dk, &problem_.dv,
                                    problem_.d_stats ? &*problem_.d_stats : nullptr,
                                    problem_.dbias ? &*problem_.dbias : nullptr});
    }

    const SdpaBackwardProblem& problem() const { return problem_; }

    void execute(const plugin::ExecuteArgs& args) const override {
        const Buffers& buffers = args.buffers;
        const Sequences sequences(problem_, buffers);
        const SdpaBackwardMemory memory = find_memory(sequences, buffers);
        const double scale = scale_ ? scale_->resolve(buffers) : problem_.scale;
        std::optional<plugin::Dropout> dropout;
        if (dropout_) dropout = dropout_->resolve(buffers);
        sdpa_backward(problem_, scale, sequences, memory, dropout);
    }

private:
    // Tensors of which no element is touched may come without memory.
    SdpaBackwardMemory find_memory(const Sequences& sequences, const Buffers& buffers) const {
        bool has_rows = false;
        bool has_keys = false;
        bool has_scores = false;
        for (const Sequence& s : sequences) {
            has_rows |= s.valid_q > 0;
            has_keys |= s.valid_kv > 0;
            has_scores |= s.valid_q > 0 && s.valid_kv > 0;
        }
        const auto find = [&buffers](bool is_needed, const TensorGeometry& t) {
            return is_needed ? buffers.find_device_buffer(t.uid, t.label) : nullptr;
        };
        SdpaBackwardMemory memory;
        memory.dq = find(has_rows, problem_.dq);
        memory.dk = find(has_keys, problem_.dk);
        memory.dv = find(has_keys, problem_.dv);
        if (problem_.dbias) memory.dbias = buffers.find(problem_.dbias->uid);
        if (!has_scores) return memory;
        memory.q = find(true, problem_.q);
        memory.k = find(true, problem_.k);
        memory.v = find(true, problem_.v);
        memory.o = find(true, problem_.o);
        memory.d_o = find(true, problem_.d_o);
        memory.stats = find(true, *problem_.stats);
        if (problem_.d_stats) memory.d_stats = find(true, *problem_.d_stats);
        if (problem_.bias) memory.bias = find(true, *problem_.bias);
        if (problem_.dbias) memory.dbias = find(true, *problem_.dbias);
        return memory;
    }

    SdpaBackwardProblem problem_;
    std::optional<plugin::ScalarOperand> scale_;
    std::optional<plugin::DropoutSource> dropout_;
};

}  // namespace

BuiltNode build_sdpa_backward(const GraphView& graph, const schema::Node& node) {
    auto plan = std::make_unique<SdpaBackwardPlan>(graph, node);
    const SdpaBackwardProblem& p = plan->problem();
    BuiltNode built;
    built.inputs = {p.q.uid, p.k.uid, p.v.uid, p.o.uid, p.d_o.uid, p.stats->uid};
    built.outputs = {p.dq.uid, p.dk.uid, p.dv.uid};
    if (p.d_stats) built.inputs.push_back(p.d_stats->uid);
    if (p.dbias) built.outputs.push_back(p.dbias->uid);
    add_shared_inputs(p, built);
    built.plan = std::move(plan);
    return built;
}

}  // namespace raggeddnn::reference
