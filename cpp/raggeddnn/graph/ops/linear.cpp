#include "raggeddnn/graph/ops/linear.hpp"

#include "raggeddnn/graph/graph.hpp"
#include "raggeddnn/graph/ops/node_draft.hpp"
#include "raggeddnn/graph/ops/shapes.hpp"

namespace raggeddnn {

namespace {

using Matmul = schema::MatmulAttributesT;
using Reduction = schema::ReductionAttributesT;
using graph_ops::InferContext;

void infer_matmul(Matmul& attributes, const InferContext& context) {
    const schema::TensorAttributesT& of_a = context.tensor(attributes.a_tensor_uid);
    const std::vector<int64_t>& a = of_a.dims;
    const std::vector<int64_t>& b = context.tensor(attributes.b_tensor_uid).dims;
    std::vector<int64_t> dims;
    if (a.size() >= 2 && b.size() >= 2) {
        const std::vector<int64_t> batch_a(a.begin(), a.end() - 2);
        const std::vector<int64_t> batch_b(b.begin(), b.end() - 2);
        dims = graph_ops::broadcast_dims({&batch_a, &batch_b});
        dims.push_back(a[a.size() - 2]);
        dims.push_back(b.back());
    } else {
        dims = graph_ops::broadcast_dims({&a, &b});  // the check names the operand
    }
    schema::TensorAttributesT& c = context.tensor(attributes.c_tensor_uid);
    if (c.dims.empty()) c.dims = std::move(dims);
    graph_ops::infer_rows("matmul", c, of_a);
    graph_ops::infer_packed(c, c.dims);
}

void infer_reduction(Reduction& attributes, const InferContext& context) {
    const schema::TensorAttributesT& x = context.tensor(attributes.in_tensor_uid);
    schema::TensorAttributesT& out = context.tensor(attributes.out_tensor_uid);
    if (out.dims.empty()) out.dims.assign(x.dims.size(), 1);
    const bool is_rank_4 = out.dims.size() == 4 && x.dims.size() == 4;
    // A single row may be kept or summed: summed, unless the author gave the result offsets.
    if (is_rank_4 && out.dims[0] == x.dims[0] && out.dims[2] == x.dims[2] && out.dims[2] != 1) {
        graph_ops::infer_rows("reduction", out, x);
    }
    graph_ops::infer_packed(out, out.dims);
}

}  // namespace

TensorPtr Graph::matmul(TensorPtr a, TensorPtr b, MatmulAttributes options) {
    graph_ops::NodeDraft<Matmul> draft(*this, "matmul", options.name(), options.table());
    draft.input("a", a, &Matmul::a_tensor_uid);
    draft.input("b", b, &Matmul::b_tensor_uid);
    const TensorPtr c = draft.output("c", &Matmul::c_tensor_uid);
    draft.commit(infer_matmul);
    return c;
}

TensorPtr Graph::reduction(TensorPtr x, ReductionAttributes options) {
    graph_ops::NodeDraft<Reduction> draft(*this, "reduction", options.name(), options.table());
    draft.input("x", x, &Reduction::in_tensor_uid);
    const TensorPtr out = draft.output("out", &Reduction::out_tensor_uid);
    draft.commit(infer_reduction);
    return out;
}

}  // namespace raggeddnn
