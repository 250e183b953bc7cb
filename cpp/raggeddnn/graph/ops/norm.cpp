#include "raggeddnn/graph/ops/norm.hpp"

#include <optional>

#include "raggeddnn/graph/graph.hpp"
#include "raggeddnn/graph/ops/node_draft.hpp"
#include "raggeddnn/graph/ops/shapes.hpp"

namespace raggeddnn {

namespace {

using RMSNorm = schema::RMSNormAttributesT;
using RMSNormBackward = schema::RMSNormBackwardAttributesT;
using Layernorm = schema::LayernormAttributesT;
using LayernormBackward = schema::LayernormBackwardAttributesT;
using graph_ops::InferContext;
using schema::TensorAttributesT;

// From the first axis that scale spans to the last; at least 1.
int64_t trailing_axes(const TensorAttributesT& scale) {
    const auto first =
        std::find_if(scale.dims.begin(), scale.dims.end(), [](int64_t dim) { return dim != 1; });
    return std::max<int64_t>(scale.dims.end() - first, 1);
}

// Dims of x, with 1 where normalized: over the last `trailing` axes, or those that scale spans.
void infer_statistic(TensorAttributesT& statistic, const TensorAttributesT& x,
                     const TensorAttributesT& scale, std::optional<int64_t> trailing) {
    std::vector<int64_t> dims = x.dims;
    for (size_t i = 0; i < dims.size(); ++i) {
        const size_t from_end = dims.size() - i;
        const bool is_spanned =
            from_end <= scale.dims.size() && scale.dims[scale.dims.size() - from_end] != 1;
        if (trailing ? static_cast<int64_t>(from_end) <= *trailing : is_spanned) dims[i] = 1;
    }
    graph_ops::infer_packed(statistic, std::move(dims));
}

void infer_rmsnorm(RMSNorm& a, const InferContext& context) {
    const TensorAttributesT& x = context.tensor(a.x_tensor_uid);
    graph_ops::infer_like(context.tensor(a.y_tensor_uid), x);
    if (!a.inv_rms_tensor_uid) return;
    infer_statistic(context.tensor(*a.inv_rms_tensor_uid), x, context.tensor(a.scale_tensor_uid),
                    std::nullopt);
}

void infer_layernorm(Layernorm& a, const InferContext& context) {
    const TensorAttributesT& x = context.tensor(a.x_tensor_uid);
    const TensorAttributesT& scale = context.tensor(a.scale_tensor_uid);
    if (a.normalized_dim_count == 0) a.normalized_dim_count = trailing_axes(scale);
    graph_ops::infer_like(context.tensor(a.y_tensor_uid), x);
    for (const auto& uid : {a.mean_tensor_uid, a.inv_variance_tensor_uid}) {
        if (uid) infer_statistic(context.tensor(*uid), x, scale, a.normalized_dim_count);
    }
}

void infer_rmsnorm_backward(RMSNormBackward& a, const InferContext& context) {
    const std::vector<int64_t> scale_dims = context.tensor(a.scale_tensor_uid).dims;
    graph_ops::infer_like(context.tensor(a.dx_tensor_uid), context.tensor(a.x_tensor_uid));
    graph_ops::infer_packed(context.tensor(a.dscale_tensor_uid), scale_dims);
    if (a.dbias_tensor_uid)
        graph_ops::infer_packed(context.tensor(*a.dbias_tensor_uid), scale_dims);
}

void infer_layernorm_backward(LayernormBackward& a, const InferContext& context) {
    const TensorAttributesT& scale = context.tensor(a.scale_tensor_uid);
    if (a.normalized_dim_count == 0) a.normalized_dim_count = trailing_axes(scale);
    graph_ops::infer_like(context.tensor(a.dx_tensor_uid), context.tensor(a.x_tensor_uid));
    graph_ops::infer_packed(context.tensor(a.dscale_tensor_uid), scale.dims);
    graph_ops::infer_packed(context.tensor(a.dbias_tensor_uid), scale.dims);
}

}  // namespace

std::array<TensorPtr, 2> Graph::rmsnorm(TensorPtr x, TensorPtr scale, RMSNormAttributes options) {
    graph_ops::NodeDraft<RMSNorm> draft(*this, "rmsnorm", options.name(), options.table());
    draft.input("x", x, &RMSNorm::x_tensor_uid);
    draft.input("scale", scale, &RMSNorm::scale_tensor_uid);
    draft.input("epsilon", options.epsilon(), &RMSNorm::epsilon_tensor_uid);
    draft.optional_input("bias", options.bias(), &RMSNorm::bias_tensor_uid);
    const TensorPtr y = draft.output("y", &RMSNorm::y_tensor_uid);
    TensorPtr inv_rms;
    if (options.table().forward_phase == NormFwdPhase::TRAINING) {
        inv_rms = draft.output("inv_rms", &RMSNorm::inv_rms_tensor_uid);
        inv_rms->set_data_type(DataType::FLOAT);
    }
    draft.commit(infer_rmsnorm);
    return {y, inv_rms};
}

std::array<TensorPtr, 3> Graph::layernorm(TensorPtr x, TensorPtr scale, TensorPtr bias,
                                          LayernormAttributes options) {
    graph_ops::NodeDraft<Layernorm> draft(*this, "layernorm", options.name(), options.table());
    draft.input("x", x, &Layernorm::x_tensor_uid);
    draft.input("scale", scale, &Layernorm::scale_tensor_uid);
    draft.input("bias", bias, &Layernorm::bias_tensor_uid);
    draft.input("epsilon", options.epsilon(), &Layernorm::epsilon_tensor_uid);
    const TensorPtr y = draft.output("y", &Layernorm::y_tensor_uid);
    TensorPtr mean;
    TensorPtr inv_variance;
    if (options.table().forward_phase == NormFwdPhase::TRAINING) {
        mean = draft.output("mean", &Layernorm::mean_tensor_uid);
        inv_variance = draft.output("inv_variance", &Layernorm::inv_variance_tensor_uid);
        mean->set_data_type(DataType::FLOAT);
        inv_variance->set_data_type(DataType::FLOAT);
    }
    draft.commit(infer_layernorm);
    return {y, mean, inv_variance};
}

std::array<TensorPtr, 3> Graph::rmsnorm_backward(TensorPtr dy, TensorPtr x, TensorPtr scale,
                                                 TensorPtr inv_rms,
                                                 RMSNormBackwardAttributes options) {
    using Table = RMSNormBackward;
    graph_ops::NodeDraft<Table> draft(*this, "rmsnorm_backward", options.name(), options.table());
    draft.input("dy", dy, &Table::dy_tensor_uid);
    draft.input("x", x, &Table::x_tensor_uid);
    draft.input("scale", scale, &Table::scale_tensor_uid);
    draft.input("inv_rms", inv_rms, &Table::inv_rms_tensor_uid);
    const TensorPtr dx = draft.output("dx", &Table::dx_tensor_uid);
    const TensorPtr dscale = draft.output("dscale", &Table::dscale_tensor_uid);
    TensorPtr dbias;
    if (options.has_dbias()) dbias = draft.output("dbias", &Table::dbias_tensor_uid);
    draft.commit(infer_rmsnorm_backward);
    return {dx, dscale, dbias};
}

std::array<TensorPtr, 3> Graph::layernorm_backward(TensorPtr dy, TensorPtr x, TensorPtr scale,
                                                   LayernormBackwardAttributes options) {
    using Table = LayernormBackward;
    graph_ops::NodeDraft<Table> draft(*this, "layernorm_backward", options.name(), options.table());
    draft.input("dy", dy, &Table::dy_tensor_uid);
    draft.input("x", x, &Table::x_tensor_uid);
    draft.input("scale", scale, &Table::scale_tensor_uid);
    draft.optional_input("mean", options.mean(), &Table::mean_tensor_uid);
    draft.optional_input("inv_variance", options.inv_variance(), &Table::inv_variance_tensor_uid);
    draft.optional_input("epsilon", options.epsilon(), &Table::epsilon_tensor_uid);
    const TensorPtr dx = draft.output("dx", &Table::dx_tensor_uid);
    const TensorPtr dscale = draft.output("dscale", &Table::dscale_tensor_uid);
    const TensorPtr dbias = draft.output("dbias", &Table::dbias_tensor_uid);
    draft.commit(infer_layernorm_backward);
    return {dx, dscale, dbias};
}

}  // namespace raggeddnn
