// Matrix product nodes of the reference engine.
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
        const MatmulProblem& p = problem_;
        // Rows and terms are counted apart: A and C agree in rows, and B has offsets of its own.
        const std::vector<Region> rows =
            regions_of("matmul", p.c.dims, {&p.c, &p.a}, args.buffers, p.is_ragged());
        const std::vector<Region> terms =
            regions_of("matmul", p.b.dims, {&p.b}, args.buffers, p.is_ragged());
        if (!has_elements(rows)) return;
        const bool has_terms = has_elements(terms);
        const Elements a = find_elements(p.a, args.buffers, has_terms);
        const Elements b = find_elements(p.b, args.buffers, has_terms);
        const Elements c = find_elements(p.c, args.buffers);
        for (size_t i = 0; i < rows.size(); ++i) {
            if (is_exact_) {
                run<Wide, ExactSum>(rows[i], terms[i], a, b, c);
            } else {
                run<double, RealSum>(rows[i], terms[i], a, b, c);
            }
        }
    }

private:
    // Terms are added in the order of K.
    template <class T, class Sum>
    void run(const Region& rows, const Region& terms, const Elements& a, const Elements& b,
             const Elements& c) const {
        const size_t rank = problem_.c.rank();
        const int64_t depth = terms.dims[rank - 2];
        Dims a_strides = problem_.a.strides;
        Dims b_strides = problem_.b.strides;
        const int64_t a_step = a_strides[rank - 1];
        const int64_t b_step = b_strides[rank - 2];
        a_strides[rank - 1] = 0;  // walked over the elements of c
        b_strides[rank - 2] = 0;
        walk(rows.dims, {problem_.c.strides, a_strides, b_strides},
             {rows.bases[0], rows.bases[1], terms.bases[0]}, [&](const std::vector<int64_t>& at) {
                 Sum sum;
                 for (int64_t k = 0; k < depth; ++k) {
                     sum.add_product(a.get<T>(at[1] + k * a_step), b.get<T>(at[2] + k * b_step));
                 }
                 c.set(at[0], sum.value());
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
