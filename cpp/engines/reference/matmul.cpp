// Matrix product nodes of the reference engine.
#include <algorithm>

#include "elements.hpp"
#include "ops.hpp"
#include "raggeddnn/schema/linear_problems.hpp"
#include "regions.hpp"

namespace raggeddnn::reference {
namespace {

using plugin::GraphView;
using schema::MatmulProblem;
using schema::Operand;

class MatmulPlan : public plugin::Plan {
public:
    MatmulPlan(const GraphView& graph, const schema::Node& node)
        : problem_(schema::read_matmul_problem(graph, node)), is_exact_(true) {
        for (const Operand* operand : {&problem_.a, &problem_.b, &problem_.c}) {
            const bool is_integral = schema::is_integer_type(operand->type);
            if (!is_integral && !schema::is_real_type(operand->type)) {
                invalid("[matmul] ", operand->label, " has data type ", to_string(operand->type),
                        ", expected ", ELEMENT_TYPES);
            }
            is_exact_ = is_exact_ && is_integral;
        }
    }

    const MatmulProblem& problem() const { return problem_; }

    void execute(const plugin::ExecuteArgs& args) const override {
        const Dims& dims = problem_.c.dims;
        if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return;
        const bool has_terms = problem_.depth() > 0;
        const Elements a = find_elements(problem_.a, args.buffers, has_terms);
        const Elements b = find_elements(problem_.b, args.buffers, has_terms);
        const Elements c = find_elements(problem_.c, args.buffers);
        if (is_exact_) {
            run<Wide>(a, b, c);
        } else {
            run<double>(a, b, c);
        }
    }

private:
    // Terms are added in the order of K.
    template <class T>
    void run(const Elements& a, const Elements& b, const Elements& c) const {
        const size_t rank = problem_.c.rank();
        Dims a_strides = problem_.a.strides;
        Dims b_strides = problem_.b.strides;
        const int64_t a_step = a_strides[rank - 1];
        const int64_t b_step = b_strides[rank - 2];
        a_strides[rank - 1] = 0;  // walked over the elements of c
        b_strides[rank - 2] = 0;
        walk(problem_.c.dims, {problem_.c.strides, a_strides, b_strides}, {0, 0, 0},
             [&](const std::vector<int64_t>& at) {
                 T sum = 0;
                 for (int64_t k = 0; k < problem_.depth(); ++k) {
                     sum += a.get<T>(at[1] + k * a_step) * b.get<T>(at[2] + k * b_step);
                 }
                 c.set(at[0], sum);
             });
    }

    MatmulProblem problem_;
    bool is_exact_;
};

}  // namespace

BuiltNode build_matmul(const GraphView& graph, const schema::Node& node) {
    auto plan = std::make_unique<MatmulPlan>(graph, node);
    const MatmulProblem& p = plan->problem();
    BuiltNode built;
    built.inputs = {p.a.uid, p.b.uid};
    built.outputs = {p.c.uid};
    built.plan = std::move(plan);
    return built;
}

}  // namespace raggeddnn::reference
