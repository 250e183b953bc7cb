// RMS and layer normalization nodes of the reference engine, forward. Each row is normalized by
// itself, in double.
#include <cmath>

#include "elements.hpp"
#include "ops.hpp"
#include "raggeddnn/schema/norm_problem.hpp"
#include "regions.hpp"

namespace raggeddnn::reference {
namespace {

using plugin::GraphView;
using schema::NormProblem;
using schema::Operand;

class NormPlan : public plugin::Plan {
public:
    NormPlan(const GraphView& graph, NormProblem problem)
        : problem_(std::move(problem)),
          epsilon_(plugin::ScalarOperand::make(graph.tensor(problem_.epsilon.uid))) {}

    const NormProblem& problem() const { return problem_; }

    void execute(const plugin::ExecuteArgs& args) const override {
        const NormProblem& p = problem_;
        const std::vector<Region> regions =
            regions_of(p.has_mean ? "layernorm" : "rmsnorm", p.x.dims, operands(), args.buffers);
        if (!has_elements(regions)) return;
        const double epsilon = epsilon_.resolve(args.buffers);
        const Row row{
            find_elements(p.x, args.buffers),    find_elements(p.scale, args.buffers),
            find_elements(p.bias, args.buffers), find_elements(p.y, args.buffers),
            find_elements(p.mean, args.buffers), find_elements(p.inv_deviation, args.buffers)};
        std::vector<Dims> strides;
        for (const Operand* operand : operands()) strides.push_back(operand->strides);
        for (const Region& region : regions) {
            const Dims inner = collapsed(region.dims, p.axes.is_normalized, false);
            walk(collapsed(region.dims, p.axes.is_normalized), strides, region.bases,
                 [&](const std::vector<int64_t>& at) {
                     normalize(row, inner, strides, at, epsilon);
                 });
        }
    }

private:
    struct Row {
        Elements x, scale, bias, y, mean, inv_deviation;
    };

    // In the order of Row; x stands in for what is not there.
    std::vector<const Operand*> operands() const {
        const NormProblem& p = problem_;
        return {&p.x,
                &p.scale,
                p.bias ? &*p.bias : &p.x,
                &p.y,
                p.mean ? &*p.mean : &p.x,
                p.inv_deviation ? &*p.inv_deviation : &p.x};
    }

    void normalize(const Row& row, const Dims& inner, const std::vector<Dims>& strides,
                   const std::vector<int64_t>& at, double epsilon) const {
        double sum = 0.0;
        int64_t count = 0;
        walk(inner, {strides[0]}, {at[0]}, [&](const std::vector<int64_t>& i) {
            sum += row.x.get(i[0]);
            ++count;
        });
        const double mean = problem_.has_mean ? sum / static_cast<double>(count) : 0.0;
        double squares = 0.0;
        walk(inner, {strides[0]}, {at[0]}, [&](const std::vector<int64_t>& i) {
            const double centred = row.x.get(i[0]) - mean;
            squares += centred * centred;
        });
        const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(count) + epsilon);
        walk(inner, strides, at, [&](const std::vector<int64_t>& i) {
            double y = (row.x.get(i[0]) - mean) * inverse * row.scale.get(i[1]);
            if (row.bias.memory) y += row.bias.get(i[2]);
            row.y.set(i[3], y);
        });
        if (row.mean.memory) row.mean.set(at[4], mean);
        if (row.inv_deviation.memory) row.inv_deviation.set(at[5], inverse);
    }

    NormProblem problem_;
    plugin::ScalarOperand epsilon_;
};

BuiltNode build(const GraphView& graph, NormProblem problem) {
    auto plan = std::make_unique<NormPlan>(graph, std::move(problem));
    const NormProblem& p = plan->problem();
    BuiltNode built;
    built.inputs = {p.x.uid, p.scale.uid};
    if (p.bias) built.inputs.push_back(p.bias->uid);
    built.outputs = {p.y.uid};
    if (p.mean) built.outputs.push_back(p.mean->uid);
    if (p.inv_deviation) built.outputs.push_back(p.inv_deviation->uid);
    built.plan = std::move(plan);
    return built;
}

}  // namespace

BuiltNode build_rmsnorm(const GraphView& graph, const schema::Node& node) {
    return build(graph, schema::read_rmsnorm_problem(graph, node));
}

BuiltNode build_layernorm(const GraphView& graph, const schema::Node& node) {
    return build(graph, schema::read_layernorm_problem(graph, node));
}

}  // namespace raggeddnn::reference
