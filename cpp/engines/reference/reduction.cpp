// Reduction nodes of the reference engine: every result is accumulated in row-major order.
#include <algorithm>
#include <cmath>
#include <limits>

#include "elements.hpp"
#include "ops.hpp"
#include "pointwise_functions.hpp"
#include "raggeddnn/schema/linear_problems.hpp"
#include "regions.hpp"

namespace raggeddnn::reference {
namespace {

using plugin::GraphView;
using schema::Operand;
using schema::ReductionMode;
using schema::ReductionProblem;

template <class T>
T lowest() {
    if constexpr (std::is_same_v<T, double>) return -std::numeric_limits<double>::infinity();
    return static_cast<T>(std::numeric_limits<int64_t>::min());
}

template <class T>
T highest() {
    if constexpr (std::is_same_v<T, double>) return std::numeric_limits<double>::infinity();
    return static_cast<T>(std::numeric_limits<int64_t>::max());
}

template <class T>
T start_of(ReductionMode mode) {
    switch (mode) {
        case ReductionMode::MUL:
        case ReductionMode::MUL_NO_ZEROS: return 1;
        case ReductionMode::MIN_OP: return highest<T>();
        case ReductionMode::MAX_OP: return lowest<T>();
        default: return 0;
    }
}

template <class T>
T combined(ReductionMode mode, T sum, T x) {
    const T magnitude = x < 0 ? -x : x;
    switch (mode) {
        case ReductionMode::MUL: break;
        case ReductionMode::MUL_NO_ZEROS:
            return x == 0 ? sum : combined(ReductionMode::MUL, sum, x);
        case ReductionMode::MIN_OP: return least(sum, x);
        case ReductionMode::MAX_OP: return greatest(sum, x);
        case ReductionMode::AMAX: return greatest(sum, magnitude);
        case ReductionMode::NORM1: return sum + magnitude;
        case ReductionMode::NORM2: return sum + x * x;
        default: return sum + x;
    }
    if constexpr (std::is_same_v<T, double>) {
        return sum * x;
    } else {  // stays within 64 bits, so that no product of more factors leaves 128
        return static_cast<T>(saturated<int64_t>(sum * x));
    }
}

class ReductionPlan : public plugin::Plan {
public:
    ReductionPlan(const GraphView& graph, const schema::Node& node)
        : problem_(schema::read_reduction_problem(graph, node)) {
        for (const Operand* operand : {&problem_.x, &problem_.out}) {
            if (!schema::is_integer_type(operand->type) && !schema::is_real_type(operand->type)) {
                invalid("[reduction] ", operand->label, " has data type ", to_string(operand->type),
                        ", expected ", ELEMENT_TYPES);
            }
        }
        is_exact_ = schema::is_integer_type(problem_.x.type) &&
                    schema::is_integer_type(problem_.out.type) &&
                    problem_.mode != ReductionMode::AVG && problem_.mode != ReductionMode::NORM2;
    }

    const ReductionProblem& problem() const { return problem_; }

    void execute(const plugin::ExecuteArgs& args) const override {
        const Dims& dims = problem_.out.dims;
        if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return;
        const Dims& from = problem_.x.dims;
        const bool has_terms = std::find(from.begin(), from.end(), 0) == from.end();
        const Elements x = find_elements(problem_.x, args.buffers, has_terms);
        const Elements out = find_elements(problem_.out, args.buffers);
        if (is_exact_) {
            run<Wide>(x, out);
        } else {
            run<double>(x, out);
        }
    }

private:
    template <class T>
    void run(const Elements& x, const Elements& out) const {
        std::vector<bool> is_reduced;
        int64_t terms = 1;
        for (size_t axis = 0; axis < problem_.x.rank(); ++axis) {
            is_reduced.push_back(problem_.out.dims[axis] == 1);
            if (is_reduced.back()) terms *= problem_.x.dims[axis];
        }
        const Dims inner = collapsed(problem_.x.dims, is_reduced, false);
        walk(problem_.out.dims, {problem_.out.strides, problem_.x.strides}, {0, 0},
             [&](const std::vector<int64_t>& at) {
                 T sum = start_of<T>(problem_.mode);
                 walk(inner, {problem_.x.strides}, {at[1]}, [&](const std::vector<int64_t>& term) {
                     sum = combined(problem_.mode, sum, x.get<T>(term[0]));
                 });
                 if constexpr (std::is_same_v<T, double>) {
                     if (problem_.mode == ReductionMode::AVG) sum /= static_cast<double>(terms);
                     if (problem_.mode == ReductionMode::NORM2) sum = std::sqrt(sum);
                 }
                 out.set(at[0], sum);
             });
    }

    ReductionProblem problem_;
    bool is_exact_ = false;
};

}  // namespace

BuiltNode build_reduction(const GraphView& graph, const schema::Node& node) {
    auto plan = std::make_unique<ReductionPlan>(graph, node);
    BuiltNode built;
    built.inputs = {plan->problem().x.uid};
    built.outputs = {plan->problem().out.uid};
    built.plan = std::move(plan);
    return built;
}

}  // namespace raggeddnn::reference
