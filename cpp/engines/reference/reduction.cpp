// Reduction nodes of the reference engine: every result is accumulated in row-major order.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

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
    } else {
        // At most 2^63 in magnitude, which INT64 has with one sign only: no product of more factors
        // leaves 128 bits, and one beyond the range stays beyond it, whatever its sign becomes.
        constexpr T limit = T{1} << 63;
        return std::clamp<T>(sum * x, -limit, limit);
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
        const ReductionProblem& p = problem_;
        const std::vector<Region> terms =
            regions_of("reduction", p.x.dims, {&p.out, &p.x}, args.buffers);
        // A result for each region of terms, or one of them all.
        const bool is_one = p.is_reduced[schema::BATCH_AXIS];
        std::vector<Region> results = terms;
        if (is_one) results = {{p.x.dims, {0, 0}, 0}};
        for (Region& result : results) result.dims = collapsed(result.dims, p.is_reduced);
        if (!has_elements(results)) return;
        const Elements x = find_elements(p.x, args.buffers, has_elements(terms));
        const Elements out = find_elements(p.out, args.buffers);
        for (size_t i = 0; i < results.size(); ++i) {
            const std::span<const Region> of_result =
                is_one ? std::span(terms) : std::span(&terms[i], 1);
            if (is_exact_) {
                run<Wide>(results[i], of_result, x, out);
            } else {
                run<double>(results[i], of_result, x, out);
            }
        }
    }

private:
    template <class T>
    void run(const Region& result, std::span<const Region> terms, const Elements& x,
             const Elements& out) const {
        const ReductionProblem& p = problem_;
        // at: the result, and where its terms begin within their region.
        walk(result.dims, {p.out.strides, p.x.strides}, {result.bases[0], 0},
             [&](const std::vector<int64_t>& at) {
                 T sum = start_of<T>(p.mode);
                 int64_t count = 0;
                 for (const Region& region : terms) {
                     walk(collapsed(region.dims, p.is_reduced, false), {p.x.strides},
                          {region.bases[1] + at[1]}, [&](const std::vector<int64_t>& term) {
                              sum = combined(p.mode, sum, x.get<T>(term[0]));
                              ++count;
                          });
                 }
                 if constexpr (std::is_same_v<T, double>) {
                     if (p.mode == ReductionMode::AVG) sum /= static_cast<double>(count);
                     if (p.mode == ReductionMode::NORM2) sum = std::sqrt(sum);
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
