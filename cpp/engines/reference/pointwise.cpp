// Elementwise nodes of the reference engine.
#include <algorithm>
#include <optional>

#include "elements.hpp"
#include "ops.hpp"
#include "pointwise_functions.hpp"
#include "raggeddnn/schema/pointwise_problem.hpp"
#include "regions.hpp"

namespace raggeddnn::reference {
namespace {

using plugin::GraphView;
using schema::Operand;
using schema::PointwiseProblem;

class PointwisePlan : public plugin::Plan {
public:
    PointwisePlan(const GraphView& graph, const schema::Node& node)
        : problem_(schema::read_pointwise_problem(graph, node)) {
        bool is_integral = schema::is_integer_type(problem_.out.type);
        check_type(problem_.out);
        for (const Operand& input : problem_.inputs) {
            check_type(input);
            is_integral = is_integral && schema::is_integer_type(input.type);
            scalars_.emplace_back();
            if (input.is_scalar) scalars_.back().emplace(graph.tensor(input.uid));
        }
        is_exact_ = is_integral && is_exact_on_integers(problem_.mode);
    }

    const PointwiseProblem& problem() const { return problem_; }

    void execute(const plugin::ExecuteArgs& args) const override {
        std::vector<const Operand*> operands = {&problem_.out};
        for (const Operand& input : problem_.inputs) operands.push_back(&input);
        const std::vector<Region> regions =
            regions_of("pointwise", problem_.out.dims, operands, args.buffers);
        if (!has_elements(regions)) return;

        std::vector<ScalarMemory::Bytes> scalars(problem_.inputs.size());
        std::vector<Elements> elements = {find_elements(problem_.out, args.buffers)};
        for (size_t i = 0; i < problem_.inputs.size(); ++i) {
            if (scalars_[i]) {
                scalars[i] = scalars_[i]->resolve(args.buffers);
                elements.push_back({problem_.inputs[i].type, scalars[i].data()});
            } else if (problem_.mode == schema::PointwiseMode::GEN_INDEX) {
                elements.push_back({});  // its values do not matter
            } else {
                elements.push_back(find_elements(problem_.inputs[i], args.buffers));
            }
        }
        for (const Region& region : regions) {
            if (is_exact_) {
                run<Wide>(region, elements);
            } else {
                run<double>(region, elements);
            }
        }
    }

private:
    static void check_type(const Operand& operand) {
        if (schema::is_real_type(operand.type) || schema::is_integer_type(operand.type)) return;
        invalid("[pointwise] ", operand.label, " has data type ", to_string(operand.type),
                ", expected ", ELEMENT_TYPES);
    }

    template <class T>
    void run(const Region& region, const std::vector<Elements>& elements) const {
        std::vector<Dims> strides = {problem_.out.strides};
        for (const Operand& input : problem_.inputs) strides.push_back(input.strides);
        // Last of all, an operand whose element is the index over the axis.
        const size_t last = strides.size();
        strides.emplace_back(problem_.out.rank(), 0);
        strides.back()[problem_.axis] = 1;
        std::vector<int64_t> bases = region.bases;
        bases.push_back(problem_.axis == schema::BATCH_AXIS ? region.batch : 0);
        walk(region.dims, strides, bases, [&](const std::vector<int64_t>& at) {
            T in[3] = {};
            for (size_t i = 1; i < last; ++i) {
                if (elements[i].memory) in[i - 1] = elements[i].get<T>(at[i]);
            }
            elements[0].set(at[0], pointwise<T>(problem_, in[0], in[1], in[2], at[last]));
        });
    }

    PointwiseProblem problem_;
    std::vector<std::optional<ScalarMemory>> scalars_;  // per input
    bool is_exact_ = false;
};

}  // namespace

BuiltNode build_pointwise(const GraphView& graph, const schema::Node& node) {
    auto plan = std::make_unique<PointwisePlan>(graph, node);
    BuiltNode built;
    for (const Operand& input : plan->problem().inputs) {
        if (!input.is_scalar) built.inputs.push_back(input.uid);
    }
    built.outputs = {plan->problem().out.uid};
    built.plan = std::move(plan);
    return built;
}

}  // namespace raggeddnn::reference
