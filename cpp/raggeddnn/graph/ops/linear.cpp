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
    const std::vector<int64_t>& a = context.tensor(attributes.a_tensor_uid).dims;
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
    graph_ops::infer_packed(context.tensor(attributes.c_tensor_uid), std::move(dims));
}

void infer_reduction(Reduction& attributes, const InferContext& context) {
    const size_t rank = context.tensor(attributes.in_tensor_uid).dims.size();
    graph_ops::infer_packed(context.tensor(attributes.out_tensor_uid),
                            std::vector<int64_t>(rank, 1));
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
