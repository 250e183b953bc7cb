#include "raggeddnn/graph/ops/batchnorm.hpp"

#include "raggeddnn/graph/graph.hpp"
#include "raggeddnn/graph/ops/node_draft.hpp"
#include "raggeddnn/graph/ops/shapes.hpp"

namespace raggeddnn {

namespace {

using Batchnorm = schema::BatchnormAttributesT;
using BatchnormBackward = schema::BatchnormBackwardAttributesT;
using BatchnormInference = schema::BatchnormInferenceAttributesT;
using BatchnormVariance = schema::BatchnormInferenceAttributesVarianceExtT;
using graph_ops::InferContext;
using schema::TensorAttributesT;

void infer_channels(TensorAttributesT& output, const TensorAttributesT& x) {
    std::vector<int64_t> dims(x.dims.size(), 1);
    if (x.dims.size() > 1) dims[1] = x.dims[1];
    graph_ops::infer_packed(output, std::move(dims));
}

void infer_batchnorm(Batchnorm& a, const InferContext& context) {
    const TensorAttributesT& x = context.tensor(a.x_tensor_uid);
    graph_ops::infer_like(context.tensor(a.y_tensor_uid), x);
    for (const auto& uid : {a.mean_tensor_uid, a.inv_variance_tensor_uid,
                            a.next_running_mean_tensor_uid, a.next_running_variance_tensor_uid}) {
        if (uid) infer_channels(context.tensor(*uid), x);
    }
}

template <class Table>
void infer_inference(Table& a, const InferContext& context) {
    graph_ops::infer_like(context.tensor(a.y_tensor_uid), context.tensor(a.x_tensor_uid));
}

void infer_batchnorm_backward(BatchnormBackward& a, const InferContext& context) {
    const TensorAttributesT& x = context.tensor(a.x_tensor_uid);
    graph_ops::infer_like(context.tensor(a.dx_tensor_uid), x);
    infer_channels(context.tensor(a.dscale_tensor_uid), x);
    infer_channels(context.tensor(a.dbias_tensor_uid), x);
}

template <class Table>
void add_peers(graph_ops::NodeDraft<Table>& draft, const std::vector<TensorPtr>& peers) {
    for (size_t i = 0; i < peers.size(); ++i) {
        draft.input("peer_stats", peers[i], &Table::peer_stats_tensor_uid, i);
    }
}

}  // namespace

std::array<TensorPtr, 5> Graph::batchnorm(TensorPtr x, TensorPtr scale, TensorPtr bias,
                                          BatchnormAttributes options) {
    using Table = Batchnorm;
    graph_ops::NodeDraft<Table> draft(*this, "batchnorm", options.name(), options.table());
    draft.input("x", x, &Table::x_tensor_uid);
    draft.input("scale", scale, &Table::scale_tensor_uid);
    draft.input("bias", bias, &Table::bias_tensor_uid);
    draft.input("epsilon", options.epsilon(), &Table::epsilon_tensor_uid);
    draft.optional_input("prev_running_mean", options.prev_mean(),
                         &Table::prev_running_mean_tensor_uid);
    draft.optional_input("prev_running_variance", options.prev_variance(),
                         &Table::prev_running_variance_tensor_uid);
    draft.optional_input("momentum", options.momentum(), &Table::momentum_tensor_uid);
    add_peers(draft, options.peer_stats());
    const TensorPtr y = draft.output("y", &Table::y_tensor_uid);
    const auto statistic = [&](const char* role, auto slot) {
        const TensorPtr output = draft.output(role, slot);
        output->set_data_type(DataType::FLOAT);
        return output;
    };
    const TensorPtr mean = statistic("mean", &Table::mean_tensor_uid);
    const TensorPtr inv_variance = statistic("inv_variance", &Table::inv_variance_tensor_uid);
    TensorPtr next_mean;
    TensorPtr next_variance;
    if (options.prev_mean() || options.prev_variance() || options.momentum()) {
        next_mean = statistic("next_running_mean", &Table::next_running_mean_tensor_uid);
        next_variance =
            statistic("next_running_variance", &Table::next_running_variance_tensor_uid);
    }
    draft.commit(infer_batchnorm);
    return {y, mean, inv_variance, next_mean, next_variance};
}

TensorPtr Graph::batchnorm_inference(TensorPtr x, TensorPtr mean, TensorPtr inv_variance,
                                     TensorPtr scale, TensorPtr bias,
                                     BatchnormInferenceAttributes options) {
    using Table = BatchnormInference;
    graph_ops::NodeDraft<Table> draft(*this, "batchnorm_inference", options.name(),
                                      options.table());
    draft.input("x", x, &Table::x_tensor_uid);
    draft.input("mean", mean, &Table::mean_tensor_uid);
    draft.input("inv_variance", inv_variance, &Table::inv_variance_tensor_uid);
    draft.input("scale", scale, &Table::scale_tensor_uid);
    draft.input("bias", bias, &Table::bias_tensor_uid);
    const TensorPtr y = draft.output("y", &Table::y_tensor_uid);
    draft.commit(infer_inference<Table>);
    return y;
}

TensorPtr Graph::batchnorm_inference_variance_ext(TensorPtr x, TensorPtr mean, TensorPtr variance,
                                                  TensorPtr scale, TensorPtr bias,
                                                  BatchnormInferenceAttributesVarianceExt options) {
    using Table = BatchnormVariance;
    graph_ops::NodeDraft<Table> draft(*this, "batchnorm_inference", options.name(),
                                      options.table());
    draft.input("x", x, &Table::x_tensor_uid);
    draft.input("mean", mean, &Table::mean_tensor_uid);
    draft.input("variance", variance, &Table::variance_tensor_uid);
    draft.input("scale", scale, &Table::scale_tensor_uid);
    draft.input("bias", bias, &Table::bias_tensor_uid);
    draft.input("epsilon", options.epsilon(), &Table::epsilon_tensor_uid);
    const TensorPtr y = draft.output("y", &Table::y_tensor_uid);
    draft.commit(infer_inference<Table>);
    return y;
}

std::array<TensorPtr, 3> Graph::batchnorm_backward(TensorPtr dy, TensorPtr x, TensorPtr scale,
                                                   BatchnormBackwardAttributes options) {
    using Table = BatchnormBackward;
    graph_ops::NodeDraft<Table> draft(*this, "batchnorm_backward", options.name(), options.table());
    draft.input("dy", dy, &Table::dy_tensor_uid);
    draft.input("x", x, &Table::x_tensor_uid);
    draft.input("scale", scale, &Table::scale_tensor_uid);
    draft.optional_input("mean", options.mean(), &Table::mean_tensor_uid);
    draft.optional_input("inv_variance", options.inv_variance(), &Table::inv_variance_tensor_uid);
    add_peers(draft, options.peer_stats());
    const TensorPtr dx = draft.output("dx", &Table::dx_tensor_uid);
    const TensorPtr dscale = draft.output("dscale", &Table::dscale_tensor_uid);
    const TensorPtr dbias = draft.output("dbias", &Table::dbias_tensor_uid);
    draft.commit(infer_batchnorm_backward);
    return {dx, dscale, dbias};
}

}  // namespace raggeddnn
