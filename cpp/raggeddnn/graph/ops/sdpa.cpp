#include "raggeddnn/graph/ops/sdpa.hpp"

#include <cmath>
#include <utility>

#include "raggeddnn/graph/graph.hpp"
#include "raggeddnn/graph/ops/infer.hpp"
#include "raggeddnn/graph/ops/node_draft.hpp"
#include "raggeddnn/graph/ops/shapes.hpp"

namespace raggeddnn {

namespace graph_ops {

namespace {

void require_rank_4(const schema::TensorAttributesT& tensor, const char* op, const char* role) {
    if (tensor.dims.size() == 4) return;
    invalid("[", op, "] ", role, " '", tensor.name, "' has rank ", tensor.dims.size(),
            ", expected 4: [B, H, S, D]");
}

// Readers differ in what an absent scale means, so it is never left absent. The attribute is a
// float; a double problem keeps the digits in a constant tensor.
template <class Table>
void infer_scale(Table& attributes, const char* op, std::optional<double> scale,
                 const InferContext& context) {
    if (attributes.scale_tensor_uid || attributes.attn_scale_value) return;  // a tensor, or done
    const schema::TensorAttributesT& q = context.tensor(attributes.q_tensor_uid);
    const double value = scale ? *scale : 1.0 / std::sqrt(static_cast<double>(q.dims[3]));
    const auto narrow = static_cast<float>(value);
    if (std::isfinite(value) && !std::isfinite(narrow) && q.data_type != schema::DataType::DOUBLE) {
        invalid("[", op, "] attn_scale is ", value,
                ", which is out of range for FLOAT, expected a magnitude of at most 3.4e38");
    }
    if (q.data_type == schema::DataType::DOUBLE && static_cast<double>(narrow) != value) {
        attributes.scale_tensor_uid = context.add_constant(value);
    } else {
        attributes.attn_scale_value = narrow;
    }
}

}  // namespace

void infer_sdpa(schema::SdpaAttributesT& attributes, std::optional<double> scale,
                const InferContext& context) {
    const schema::TensorAttributesT& q = context.tensor(attributes.q_tensor_uid);
    const schema::TensorAttributesT& v = context.tensor(attributes.v_tensor_uid);
    require_rank_4(q, "sdpa", "q");
    require_rank_4(v, "sdpa", "v");
    infer_packed(context.tensor(attributes.o_tensor_uid),
                 {q.dims[0], q.dims[1], q.dims[2], v.dims[3]});
    if (attributes.stats_tensor_uid) {
        schema::TensorAttributesT& stats = context.tensor(*attributes.stats_tensor_uid);
        infer_packed(stats, {q.dims[0], q.dims[1], q.dims[2], 1});
    }
    infer_scale(attributes, "sdpa", scale, context);
}

// Dims and strides of a gradient are those of its operand. Without strides of its own it also lies
// as its operand does, ragged offset and multiplier included.
void infer_gradient(schema::TensorAttributesT& gradient, const schema::TensorAttributesT& operand) {
    if (gradient.dims.empty()) gradient.dims = operand.dims;
    if (!gradient.strides.empty() || gradient.dims != operand.dims) return;
    bool is_broadcast = false;
    for (size_t i = 0; i < operand.dims.size() && i < operand.strides.size(); ++i) {
        is_broadcast |= operand.dims[i] > 1 && operand.strides[i] == 0;
    }
    const bool is_own = gradient.ragged_offset_tensor_uid.has_value();
    if (is_own || (is_broadcast && !operand.ragged_offset_tensor_uid)) {
        gradient.strides = packed_strides(gradient.dims, is_own);
        return;
    }
    gradient.strides = operand.strides;
    gradient.ragged_offset_tensor_uid = operand.ragged_offset_tensor_uid;
    gradient.ragged_offset_multiplier = operand.ragged_offset_multiplier;
}

void infer_sdpa_backward(schema::SdpaBackwardAttributesT& attributes, std::optional<double> scale,
                         const InferContext& context) {
    const schema::TensorAttributesT& q = context.tensor(attributes.q_tensor_uid);
    const schema::TensorAttributesT& k = context.tensor(attributes.k_tensor_uid);
    const schema::TensorAttributesT& v = context.tensor(attributes.v_tensor_uid);
    require_rank_4(q, "sdpa_backward", "q");
    require_rank_4(k, "sdpa_backward", "k");
    require_rank_4(v, "sdpa_backward", "v");
    infer_gradient(context.tensor(attributes.dq_tensor_uid), q);
    infer_gradient(context.tensor(attributes.dk_tensor_uid), k);
    infer_gradient(context.tensor(attributes.dv_tensor_uid), v);
    if (attributes.dbias_tensor_uid && attributes.attn_mask_tensor_uid) {
        const schema::TensorAttributesT& bias = context.tensor(*attributes.attn_mask_tensor_uid);
        infer_gradient(context.tensor(*attributes.dbias_tensor_uid), bias);
    }
    infer_scale(attributes, "sdpa_backward", scale, context);
}

}  // namespace graph_ops

namespace {

// Operands that both nodes have. The rest of a call is its results.
template <class Options>
graph_ops::NodeDraft<typename Options::Table> start_node(Graph& graph, const char* op,
                                                         const Options& options,
                                                         const std::array<TensorPtr, 3>& qkv) {
    using Table = typename Options::Table;
    graph_ops::NodeDraft<Table> draft(graph, op, options.name(), options.lowered());
    if (options.attn_scale() && options.has(&Table::scale_tensor_uid)) {
        invalid("[", draft.prefix(),
                "] attn_scale is both a tensor and a number, expected one of them");
    }
    draft.input("q", qkv[0], &Table::q_tensor_uid);
    draft.input("k", qkv[1], &Table::k_tensor_uid);
    draft.input("v", qkv[2], &Table::v_tensor_uid);
    for (const auto& operand : options.operands()) {
        draft.input(operand.role, operand.tensor, operand.slot);
    }
    return draft;
}

}  // namespace

std::array<TensorPtr, 2> Graph::sdpa(TensorPtr q, TensorPtr k, TensorPtr v,
                                     SdpaAttributes options) {
    using Table = schema::SdpaAttributesT;
    auto draft = start_node(*this, "sdpa", options, {q, k, v});
    const TensorPtr o = draft.output("o", &Table::o_tensor_uid);
    TensorPtr stats;
    if (options.generate_stats()) {
        stats = draft.output("stats", &Table::stats_tensor_uid);
        stats->set_data_type(DataType::FLOAT);
    }
    draft.commit(
        [scale = options.attn_scale()](Table& table, const graph_ops::InferContext& context) {
            graph_ops::infer_sdpa(table, scale, context);
        });
    return {o, stats};
}

std::array<TensorPtr, 4> Graph::sdpa_backward(TensorPtr q, TensorPtr k, TensorPtr v, TensorPtr o,
                                              TensorPtr d_o, TensorPtr stats,
                                              SdpaBackwardAttributes options) {
    using Table = schema::SdpaBackwardAttributesT;
    auto draft = start_node(*this, "sdpa_backward", options, {q, k, v});
    draft.input("o", o, &Table::o_tensor_uid);
    draft.input("do", d_o, &Table::do_tensor_uid);
    draft.input("stats", stats, &Table::stats_tensor_uid);
    const auto gradient = [&draft](const char* role, const TensorPtr& of, auto slot) {
        const TensorPtr tensor = draft.output(role, slot);
        tensor->set_data_type(of->stated_data_type());  // NOT_SET: as the graph's other tensors
        return tensor;
    };
    const TensorPtr dq = gradient("dq", q, &Table::dq_tensor_uid);
    const TensorPtr dk = gradient("dk", k, &Table::dk_tensor_uid);
    const TensorPtr dv = gradient("dv", v, &Table::dv_tensor_uid);
    TensorPtr dbias;
    if (options.generate_dbias()) {
        const TensorPtr bias = options.operand(&Table::attn_mask_tensor_uid);
        if (!bias) {
            fail(ErrorCode::ATTRIBUTE_NOT_SET, "[", draft.prefix(),
                 "] generate_dbias is true and bias is not set, expected a bias");
        }
        dbias = gradient("dbias", bias, &Table::dbias_tensor_uid);
    }
    draft.commit(
        [scale = options.attn_scale()](Table& table, const graph_ops::InferContext& context) {
            graph_ops::infer_sdpa_backward(table, scale, context);
        });
    return {dq, dk, dv, dbias};
}

}  // namespace raggeddnn
