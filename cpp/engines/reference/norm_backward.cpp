// RMS and layer normalization nodes of the reference engine, backward.
#include <cmath>
#include <optional>

#include "elements.hpp"
#include "ops.hpp"
#include "raggeddnn/schema/norm_problem.hpp"
#include "regions.hpp"

namespace raggeddnn::reference {
namespace {

using plugin::GraphView;
using schema::NormBackwardProblem;
using schema::Operand;

// Row-major strides of `dims`, 0 over axes of size 1.
Dims sum_strides(const Dims& dims) {
    Dims strides(dims.size(), 0);
    int64_t step = 1;
    for (size_t axis = dims.size(); axis-- > 0;) {
        if (dims[axis] != 1) strides[axis] = step;
        step *= dims[axis];
    }
    return strides;
}

class NormBackwardPlan : public plugin::Plan {
public:
    NormBackwardPlan(const GraphView& graph, NormBackwardProblem problem)
        : problem_(std::move(problem)) {
        if (problem_.epsilon) {
            epsilon_ = plugin::ScalarOperand::make(graph.tensor(problem_.epsilon->uid));
        }
    }

    const NormBackwardProblem& problem() const { return problem_; }

    void execute(const plugin::ExecuteArgs& args) const override {
        const NormBackwardProblem& p = problem_;
        const std::vector<Region> regions =
            regions_of(p.has_mean ? "layernorm_backward" : "rmsnorm_backward", p.x.dims, operands(),
                       args.buffers);
        size_t width = 1;
        for (const int64_t dim : p.axes.scale_dims) width *= static_cast<size_t>(dim);
        Sums sums{std::vector<double>(width), std::vector<double>(width)};
        const bool is_touched = has_elements(regions);
        const Row row{find_elements(p.dy, args.buffers, is_touched),
                      find_elements(p.x, args.buffers, is_touched),
                      find_elements(p.scale, args.buffers, is_touched),
                      find_elements(p.mean, args.buffers, is_touched),
                      find_elements(p.inv_deviation, args.buffers, is_touched),
                      find_elements(p.dx, args.buffers, is_touched)};
        const Elements dscale = find_elements(p.dscale, args.buffers, width > 0);
        const Elements dbias = find_elements(p.dbias, args.buffers, width > 0);
        const double epsilon = epsilon_ ? epsilon_->resolve(args.buffers) : 0.0;

        std::vector<Dims> strides;
        for (const Operand* operand : operands()) strides.push_back(operand->strides);
        strides.push_back(sum_strides(p.axes.scale_dims));
        for (const Region& region : regions) {
            std::vector<int64_t> bases = region.bases;
            bases.push_back(0);
            const Dims inner = collapsed(region.dims, p.axes.is_normalized, false);
            walk(collapsed(region.dims, p.axes.is_normalized), strides, bases,
                 [&](const std::vector<int64_t>& at) {
                     differentiate(row, inner, strides, at, epsilon, sums);
                 });
        }
        store(sums.dscale, p.dscale, dscale);
        if (p.dbias) store(sums.dbias, *p.dbias, dbias);
    }

private:
    struct Row {
        Elements dy, x, scale, mean, inv_deviation, dx;
    };
    struct Sums {
        std::vector<double> dscale, dbias;
    };

    // In the order of Row; x stands in for what is not there.
    std::vector<const Operand*> operands() const {
        const NormBackwardProblem& p = problem_;
        return {&p.dy,
                &p.x,
                &p.scale,
                p.mean ? &*p.mean : &p.x,
                p.inv_deviation ? &*p.inv_deviation : &p.x,
                &p.dx};
    }

    struct Statistics {
        double mean = 0.0;
        double inverse = 0.0;
    };

    Statistics statistics(const Row& row, const Dims& inner, const std::vector<Dims>& strides,
                          const std::vector<int64_t>& at, double epsilon) const {
        if (row.inv_deviation.memory) {
            return {row.mean.memory ? row.mean.get(at[3]) : 0.0, row.inv_deviation.get(at[4])};
        }
        double sum = 0.0;
        double count = 0.0;
        walk(inner, {strides[1]}, {at[1]}, [&](const std::vector<int64_t>& i) {
            sum += row.x.get(i[0]);
            count += 1.0;
        });
        double squares = 0.0;
        walk(inner, {strides[1]}, {at[1]}, [&](const std::vector<int64_t>& i) {
            const double centred = row.x.get(i[0]) - sum / count;
            squares += centred * centred;
        });
        return {sum / count, 1.0 / std::sqrt(squares / count + epsilon)};
    }

    // With g = dy * scale and n = (x - mean) / deviation, over one row:
    // dx = (g - mean(g) - n mean(g n)) / deviation, without mean(g) for RMS.
    void differentiate(const Row& row, const Dims& inner, const std::vector<Dims>& strides,
                       const std::vector<int64_t>& at, double epsilon, Sums& sums) const {
        const auto [mean, inverse] = statistics(row, inner, strides, at, epsilon);
        double sum_g = 0.0;
        double sum_gn = 0.0;
        double count = 0.0;
        walk(inner, strides, at, [&](const std::vector<int64_t>& i) {
            const double dy = row.dy.get(i[0]);
            const double n = (row.x.get(i[1]) - mean) * inverse;
            const double g = dy * row.scale.get(i[2]);
            sum_g += g;
            sum_gn += g * n;
            count += 1.0;
            const auto column = static_cast<size_t>(i[6]);
            sums.dscale[column] += dy * n;
            sums.dbias[column] += dy;
        });
        const double mean_g = problem_.has_mean ? sum_g / count : 0.0;
        walk(inner, strides, at, [&](const std::vector<int64_t>& i) {
            const double n = (row.x.get(i[1]) - mean) * inverse;
            const double g = row.dy.get(i[0]) * row.scale.get(i[2]);
            row.dx.set(i[5], inverse * (g - mean_g - n * sum_gn / count));
        });
    }

    void store(const std::vector<double>& sums, const Operand& gradient,
               const Elements& memory) const {
        const Dims& dims = problem_.axes.scale_dims;
        walk(dims, {gradient.strides, sum_strides(dims)}, {0, 0},
             [&](const std::vector<int64_t>& at) {
                 memory.set(at[0], sums[static_cast<size_t>(at[1])]);
             });
    }

    NormBackwardProblem problem_;
    std::optional<plugin::ScalarOperand> epsilon_;
};

BuiltNode build(const GraphView& graph, NormBackwardProblem problem) {
    auto plan = std::make_unique<NormBackwardPlan>(graph, std::move(problem));
    const NormBackwardProblem& p = plan->problem();
    BuiltNode built;
    built.inputs = {p.dy.uid, p.x.uid, p.scale.uid};
    if (p.mean) built.inputs.push_back(p.mean->uid);
    if (p.inv_deviation) built.inputs.push_back(p.inv_deviation->uid);
    built.outputs = {p.dx.uid, p.dscale.uid};
    if (p.dbias) built.outputs.push_back(p.dbias->uid);
    built.plan = std::move(plan);
    return built;
}

}  // namespace

BuiltNode build_rmsnorm_backward(const GraphView& graph, const schema::Node& node) {
    return build(graph, schema::read_rmsnorm_backward_problem(graph, node));
}

BuiltNode build_layernorm_backward(const GraphView& graph, const schema::Node& node) {
    return build(graph, schema::read_layernorm_backward_problem(graph, node));
}

}  // namespace raggeddnn::reference
