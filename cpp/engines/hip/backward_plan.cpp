// A backward attention node on the GPU: what of it can be run, and its parameters at each execute.
#include "backward_plan.hpp"

#include <algorithm>
#include <limits>

#include "attention/backward_sequence.hpp"
#include "raggeddnn/plugin/sdpa_operands.hpp"

namespace raggeddnn::hip {

BackwardPlan::BackwardPlan(const plugin::GraphView& graph, const schema::Node& node,
                           const plugin::EngineConfig* config)
    : problem_(schema::read_sdpa_backward_problem(graph, node)), operands_(graph, problem_) {
    const schema::SdpaBackwardProblem& p = problem_;
    check_operands(p, {&p.k, &p.v, &p.o, &p.d_o, &p.dq, &p.dk, &p.dv},
                   {&*p.stats, p.d_stats ? &*p.d_stats : nullptr});
    if (p.dbias) plugin::check_kernel_bias(p, *p.dbias);
    check_workspace();
    choice_ = choose_kernel(backward_kernels(), p,
                            p.k.heads() == p.v.heads() ? "" : "k and v of different head counts");
    reuse_.emplace(graph, choice_.kernel->arch + kernel_id(), config);
}

// A number for each row of each head, the only part of the workspace that may be too large to
// count.
void BackwardPlan::check_workspace() const {
    const schema::SdpaBackwardProblem& p = problem_;
    int64_t rows = 0;
    if (!__builtin_mul_overflow(p.batches() * p.heads(), p.q.max_rows(), &rows) &&
        rows < std::numeric_limits<int64_t>::max() / 8) {
        return;
    }
    invalid("[", p.op, "] the workspace needs a number for each of ", p.batches(), " batches x ",
            p.heads(), " heads x ", p.q.max_rows(), " rows, expected fewer than 2^60");
}

bool BackwardPlan::has_bias_gradient() const {
    const schema::Dims4& dims = problem_.dbias_dims;
    return problem_.dbias && std::find(dims.begin(), dims.end(), 0) == dims.end();
}

void BackwardPlan::cut(WorkspaceCutter& cutter, BackwardParams& params) const {
    const schema::SdpaBackwardProblem& p = problem_;
    const int64_t rows = p.q.max_rows();
    FaultRecord* const faults = cutter.take_fault_record();
    uint64_t* const names = cutter.take_schedule_names();
    params.schedule_q =
        cutter.take_schedule<BackwardSequence>(p.batches(), rows, choice_.kernel->tile_rows);
    params.schedule_q.faults = faults;
    params.schedule_q.owner = record_owner_;
    params.schedule_q.made = names;
    params.schedule_k = cutter.take_schedule<BackwardSequence>(p.batches(), p.k.max_rows(),
                                                               choice_.kernel->tile_keys);
    params.schedule_k.made = names + 1;
    params.delta = cutter.take<float>(static_cast<size_t>(p.batches() * p.heads() * rows));
    params.next_bias_tile = cutter.take<unsigned long long>(1);
}

size_t BackwardPlan::workspace_size() const {
    BackwardParams params{};
    WorkspaceCutter cutter(nullptr);
    cut(cutter, params);
    return cutter.used();
}

std::string BackwardPlan::explain_kernel() const {
    const BackwardKernel& kernel = *choice_.kernel;
    return message("SdpaBackwardAttributes: tiles of ", kernel.tile_rows, " rows by ",
                   kernel.block_keys, " keys for dQ, of ", kernel.tile_keys, " keys by ",
                   kernel.block_rows, " rows for dK and dV", choice_.explain());
}

std::string BackwardPlan::kernel_id() const {
    const BackwardKernel& kernel = *choice_.kernel;
    return message("backward, tiles ", kernel.tile_rows, "x", kernel.block_keys, " and ",
                   kernel.tile_keys, "x", kernel.block_rows, choice_.id());
}

void BackwardPlan::execute(const plugin::ExecuteArgs& args) const {
    const schema::SdpaBackwardProblem& p = problem_;
    if (!has_rows() && !has_keys() && !has_bias_gradient()) return;
    const bool has_scores = has_rows() && has_keys();
    BackwardParams params{};
    static_cast<AttentionParams&>(params) = operands_.resolve(p, args.buffers);
    params.d_o = row_tensor(p.d_o, args.buffers, has_scores);
    if (p.d_stats) params.d_stats = row_tensor(*p.d_stats, args.buffers, has_scores);
    params.d_q = row_tensor(p.dq, args.buffers, has_rows());
    params.d_k = row_tensor(p.dk, args.buffers, has_keys());
    params.d_v = row_tensor(p.dv, args.buffers, has_keys());
    params.cleared[0] = cleared_output(p.dq, params.d_q, args.cleared);
    params.cleared[1] = cleared_output(p.dk, params.d_k, args.cleared);
    params.cleared[2] = cleared_output(p.dv, params.d_v, args.cleared);
    if (has_bias_gradient()) {
        const auto& [batches, heads, rows, keys] = p.dbias_dims;
        params.d_bias = {bias_tensor(*p.dbias, args.buffers), batches, heads, rows, keys};
    }
    WorkspaceCutter cutter(args.workspace, "sdpa_backward");
    cut(cutter, params);
    reuse_->name({&params.schedule_q, &params.schedule_k}, params,
                 {&params.d_o, &params.d_stats, &params.d_q, &params.d_k, &params.d_v});
    if (const char* error = choice_.kernel->launch(params, args.stream)) {
        fail(ErrorCode::EXECUTION_FAILED, "[sdpa_backward] the kernel did not start: ", error);
    }
}

std::optional<std::string> BackwardPlan::report_faults(const void* workspace,
                                                       hipdnnPluginStream_t stream) const {
    if (!has_rows() && !has_keys()) return std::nullopt;  // nothing was read
    const auto tensor_of = [this](MetadataOf of) -> const schema::TensorGeometry& {
        switch (of) {
            case MetadataOf::D_O: return problem_.d_o;
            case MetadataOf::D_STATS: return *problem_.d_stats;
            case MetadataOf::D_Q: return problem_.dq;
            case MetadataOf::D_K: return problem_.dk;
            case MetadataOf::D_V: return problem_.dv;
            default: return operand_of(problem_, of);
        }
    };
    return report_first_fault(problem_, tensor_of, record_owner_, workspace, stream);
}

}  // namespace raggeddnn::hip
