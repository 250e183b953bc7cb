#include "raggeddnn/graph/ops/pointwise.hpp"

#include "raggeddnn/graph/graph.hpp"
#include "raggeddnn/graph/ops/node_draft.hpp"
#include "raggeddnn/graph/ops/shapes.hpp"

namespace raggeddnn {

namespace graph_ops {

namespace {

using Table = schema::PointwiseAttributesT;

bool is_by_value(const schema::TensorAttributesT& t) {
    return t.is_runtime_pass_by_value || t.value.type != schema::TensorValue::NONE;
}

// As the first operand of the output's dims, ragged ones before dense ones; else packed.
void infer_pointwise(Table& attributes, const InferContext& context) {
    static const std::vector<int64_t> none;
    std::vector<const schema::TensorAttributesT*> inputs = {
        &context.tensor(attributes.in_0_tensor_uid)};
    for (const auto& uid : {attributes.in_1_tensor_uid, attributes.in_2_tensor_uid}) {
        if (uid) inputs.push_back(&context.tensor(*uid));
    }
    std::vector<int64_t> dims;
    for (const schema::TensorAttributesT* input : inputs) {
        dims = broadcast_dims({&dims, is_by_value(*input) ? &none : &input->dims});
    }
    if (dims.empty()) dims = {1};  // of scalars alone
    const schema::TensorAttributesT* like = nullptr;
    for (const schema::TensorAttributesT* input : inputs) {
        if (is_by_value(*input) || input->dims != dims) continue;
        if (!like || (input->ragged_offset_tensor_uid && !like->ragged_offset_tensor_uid)) {
            like = input;
        }
    }
    schema::TensorAttributesT& out = context.tensor(attributes.out_0_tensor_uid);
    if (like) {
        infer_like(out, *like);
    } else {
        infer_packed(out, std::move(dims));
    }
}

}  // namespace

}  // namespace graph_ops

TensorPtr Graph::pointwise(TensorPtr a, TensorPtr b, TensorPtr c, PointwiseAttributes options) {
    using Table = schema::PointwiseAttributesT;
    graph_ops::NodeDraft<Table> draft(*this, "pointwise", options.name(), options.table());
    draft.input("a", a, &Table::in_0_tensor_uid);
    draft.optional_input("b", b, &Table::in_1_tensor_uid);
    draft.optional_input("c", c, &Table::in_2_tensor_uid);
    const TensorPtr out = draft.output("out", &Table::out_0_tensor_uid);
    draft.commit(graph_ops::infer_pointwise);
    return out;
}

}  // namespace raggeddnn
