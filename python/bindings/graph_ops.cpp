// The operations of Graph besides attention, and their enumerations.
#include "graph_ops.hpp"

#include <pybind11/native_enum.h>

namespace raggeddnn::python {

namespace {

using MaybeTensor = std::optional<TensorPtr>;
using MaybeFloat = std::optional<float>;

MaybeTensor maybe(const TensorPtr& tensor) { return tensor ? MaybeTensor(tensor) : std::nullopt; }

struct PointwiseOptions {
    MaybeFloat relu_lower_clip, relu_upper_clip, relu_lower_clip_slope;
    MaybeFloat swish_beta, elu_alpha, softplus_beta;
    std::optional<int64_t> axis;

    PointwiseAttributes attributes(PointwiseMode mode, std::string name) const {
        PointwiseAttributes a;
        a.set_mode(mode).set_name(std::move(name));
        if (relu_lower_clip) a.set_relu_lower_clip(*relu_lower_clip);
        if (relu_upper_clip) a.set_relu_upper_clip(*relu_upper_clip);
        if (relu_lower_clip_slope) a.set_relu_lower_clip_slope(*relu_lower_clip_slope);
        if (swish_beta) a.set_swish_beta(*swish_beta);
        if (elu_alpha) a.set_elu_alpha(*elu_alpha);
        if (softplus_beta) a.set_softplus_beta(*softplus_beta);
        if (axis) a.set_axis(*axis);
        return a;
    }
};

void bind_pointwise(py::class_<Graph>& c) {
    c.def(
        "pointwise",
        [](Graph& g, PointwiseMode mode, TensorPtr a, MaybeTensor b, MaybeTensor t,
           MaybeFloat relu_lower_clip, MaybeFloat relu_upper_clip, MaybeFloat relu_lower_clip_slope,
           MaybeFloat swish_beta, MaybeFloat elu_alpha, MaybeFloat softplus_beta,
           std::optional<int64_t> axis, std::string name) {
            const PointwiseOptions options{relu_lower_clip,
                                           relu_upper_clip,
                                           relu_lower_clip_slope,
                                           swish_beta,
                                           elu_alpha,
                                           softplus_beta,
                                           axis};
            return g.pointwise(std::move(a), b.value_or(nullptr), t.value_or(nullptr),
                               options.attributes(mode, std::move(name)));
        },
        py::arg("mode"), py::arg("a"), py::arg("b") = py::none(), py::arg("c") = py::none(),
        py::kw_only(), py::arg("relu_lower_clip") = py::none(),
        py::arg("relu_upper_clip") = py::none(), py::arg("relu_lower_clip_slope") = py::none(),
        py::arg("swish_beta") = py::none(), py::arg("elu_alpha") = py::none(),
        py::arg("softplus_beta") = py::none(), py::arg("axis") = py::none(), py::arg("name") = "",
        "Elementwise; returns the result, of the dims that the operands broadcast to (dims of size "
        "1, missing leading dims, and pass-by-value scalars broadcast). Gradients (modes *_BWD) "
        "take a = dy and b = the input of the activation; BINARY_SELECT gives a where c is not "
        "zero, else b; GEN_INDEX the index over `axis`. Real results are computed in double and "
        "rounded once; integers exactly, kept within the range of the type. Over ragged [B,H,S,D] "
        "tensors: every row of every batch, and nothing past the last.");
}

void bind_linear(py::class_<Graph>& c) {
    c.def(
        "matmul",
        [](Graph& g, TensorPtr a, TensorPtr b, std::string name) {
            return g.matmul(std::move(a), std::move(b), MatmulAttributes().set_name(name));
        },
        py::arg("a"), py::arg("b"), py::kw_only(), py::arg("name") = "",
        "a [..., M, K] times b [..., K, N]; returns c [..., M, N]. Leading dims broadcast. Of "
        "ragged "
        "[B,H,S,D] tensors: c has the rows of a, and is ragged where a is (it shares the offsets "
        "of "
        "a unless given its own); the sum goes over the rows of b, beside as many columns of a, "
        "and "
        "over no rows gives 0.");
    c.def(
        "reduction",
        [](Graph& g, ReductionMode mode, TensorPtr x, bool is_deterministic, std::string name) {
            ReductionAttributes a;
            a.set_mode(mode).set_is_deterministic(is_deterministic).set_name(std::move(name));
            return g.reduction(std::move(x), a);
        },
        py::arg("mode"), py::arg("x"), py::kw_only(), py::arg("is_deterministic") = false,
        py::arg("name") = "",
        "Reduces x over the dims in which the result has size 1: all of them, unless the result's "
        "set_dim says otherwise. Of a ragged x [B,H,S,D]: over the rows that the batches have; a "
        "result that keeps S keeps B and is ragged (it shares the offsets of x unless given its "
        "own), any other is dense. Where S is 1 a result is dense unless given offsets. Nothing "
        "gives 0 for sums, norms and AMAX, 1 for products, inf (MIN_OP), -inf (MAX_OP), in integer "
        "types the limit, and NaN for AVG (0 in integer types).");
}

void bind_rmsnorm(py::class_<Graph>& c) {
    c.def(
        "rmsnorm",
        [](Graph& g, TensorPtr x, TensorPtr scale, TensorPtr epsilon, MaybeTensor bias,
           NormFwdPhase phase, std::string name) {
            RMSNormAttributes a;
            a.set_forward_phase(phase).set_name(std::move(name)).set_epsilon(std::move(epsilon));
            a.set_bias(bias.value_or(nullptr));
            const auto [y, inv_rms] = g.rmsnorm(std::move(x), std::move(scale), a);
            return std::pair(y, maybe(inv_rms));
        },
        py::arg("x"), py::arg("scale"), py::arg("epsilon"), py::arg("bias") = py::none(),
        py::kw_only(), py::arg("norm_forward_phase") = NormFwdPhase::INFERENCE,
        py::arg("name") = "",
        "y = x / sqrt(mean(x^2) + epsilon) * scale + bias, the mean over the dims that scale spans "
        "(scale: 1 or the size of x in each). Returns (y, inv_rms): inv_rms is 1/sqrt(mean(x^2) + "
        "epsilon), FLOAT, with dims of x but 1 where normalized; None unless TRAINING. epsilon: a "
        "pass-by-value scalar. x may be ragged [B,H,S,D], and y then is.");
    c.def(
        "rmsnorm_backward",
        [](Graph& g, TensorPtr dy, TensorPtr x, TensorPtr scale, TensorPtr inv_rms, bool has_dbias,
           std::string name) {
            RMSNormBackwardAttributes a;
            a.set_has_dbias(has_dbias).set_name(std::move(name));
            const auto [dx, dscale, dbias] =
                g.rmsnorm_backward(std::move(dy), std::move(x), std::move(scale), inv_rms, a);
            return std::tuple(dx, dscale, maybe(dbias));
        },
        py::arg("dy"), py::arg("x"), py::arg("scale"), py::arg("inv_rms"), py::kw_only(),
        py::arg("has_dbias") = false, py::arg("name") = "",
        "Gradients (dx, dscale, dbias) of rmsnorm from its inv_rms; dx with dims of x, dscale and "
        "dbias with those of scale; dbias None unless has_dbias.");
}

void bind_layernorm(py::class_<Graph>& c) {
    c.def(
        "layernorm",
        [](Graph& g, TensorPtr x, TensorPtr scale, TensorPtr bias, TensorPtr epsilon,
           NormFwdPhase phase, int64_t normalized_dim_count, std::string name) {
            LayernormAttributes a;
            a.set_forward_phase(phase).set_name(std::move(name)).set_epsilon(std::move(epsilon));
            a.set_normalized_dim_count(normalized_dim_count);
            const auto [y, mean, inv_variance] =
                g.layernorm(std::move(x), std::move(scale), std::move(bias), a);
            return std::tuple(y, maybe(mean), maybe(inv_variance));
        },
        py::arg("x"), py::arg("scale"), py::arg("bias"), py::arg("epsilon"), py::kw_only(),
        py::arg("norm_forward_phase") = NormFwdPhase::INFERENCE,
        py::arg("normalized_dim_count") = 0, py::arg("name") = "",
        "y = (x - mean) / sqrt(variance + epsilon) * scale + bias over the last "
        "normalized_dim_count dims (0: those that scale spans). Returns (y, mean, inv_variance): "
        "inv_variance is 1/sqrt(variance + epsilon); both FLOAT, with dims of x but 1 where "
        "normalized; None unless TRAINING. x may be ragged [B,H,S,D], and y then is.");
    c.def(
        "layernorm_backward",
        [](Graph& g, TensorPtr dy, TensorPtr x, TensorPtr scale, MaybeTensor mean,
           MaybeTensor inv_variance, MaybeTensor epsilon, int64_t normalized_dim_count,
           std::string name) {
            LayernormBackwardAttributes a;
            a.set_saved_mean_and_inv_variance(mean.value_or(nullptr),
                                              inv_variance.value_or(nullptr));
            a.set_epsilon(epsilon.value_or(nullptr)).set_name(std::move(name));
            a.set_normalized_dim_count(normalized_dim_count);
            const auto [dx, dscale, dbias] =
                g.layernorm_backward(std::move(dy), std::move(x), std::move(scale), a);
            return std::tuple(dx, dscale, dbias);
        },
        py::arg("dy"), py::arg("x"), py::arg("scale"), py::arg("mean") = py::none(),
        py::arg("inv_variance") = py::none(), py::kw_only(), py::arg("epsilon") = py::none(),
        py::arg("normalized_dim_count") = 0, py::arg("name") = "",
        "Gradients (dx, dscale, dbias) of layernorm, from its mean and inv_variance, or from "
        "epsilon, which makes them again; dx with dims of x, dscale and dbias with those of "
        "scale.");
}

void bind_batchnorm(py::class_<Graph>& c) {
    c.def(
        "batchnorm",
        [](Graph& g, TensorPtr x, TensorPtr scale, TensorPtr bias, MaybeTensor in_running_mean,
           MaybeTensor in_running_var, MaybeTensor epsilon, MaybeTensor momentum,
           std::vector<TensorPtr> peer_stats, std::string name) {
            BatchnormAttributes a;
            a.set_name(std::move(name)).set_epsilon(epsilon.value_or(nullptr));
            a.set_previous_running_stats(in_running_mean.value_or(nullptr),
                                         in_running_var.value_or(nullptr),
                                         momentum.value_or(nullptr));
            a.set_peer_stats(std::move(peer_stats));
            const auto [y, mean, inv_variance, next_mean, next_variance] =
                g.batchnorm(std::move(x), std::move(scale), std::move(bias), a);
            return std::tuple(y, mean, inv_variance, maybe(next_mean), maybe(next_variance));
        },
        py::arg("x"), py::arg("scale"), py::arg("bias"), py::arg("in_running_mean") = py::none(),
        py::arg("in_running_var") = py::none(), py::arg("epsilon") = py::none(),
        py::arg("momentum") = py::none(), py::arg("peer_stats") = std::vector<TensorPtr>(),
        py::kw_only(), py::arg("name") = "",
        "Normalizes x [N,C,...] per channel with the batch's own mean and variance; everything "
        "else is [1,C,1,...]. Returns (y, mean, inv_variance, next_running_mean, "
        "next_running_var): inv_variance is 1/sqrt(variance + epsilon), next = (1 - momentum) * "
        "running + momentum * batch, of the variance divided by n - 1; the last two are None "
        "without running statistics. epsilon, momentum: pass-by-value scalars. x may be ragged "
        "[B,H,S,D], and y then is: channels are the heads, n counts the rows that the batches "
        "have. Of no elements: mean and inv_variance are NaN, running statistics stay.");
    c.def(
        "batchnorm_inference",
        [](Graph& g, TensorPtr x, TensorPtr mean, TensorPtr inv_variance, TensorPtr scale,
           TensorPtr bias, std::string name) {
            return g.batchnorm_inference(std::move(x), std::move(mean), std::move(inv_variance),
                                         std::move(scale), std::move(bias),
                                         BatchnormInferenceAttributes().set_name(name));
        },
        py::arg("x"), py::arg("mean"), py::arg("inv_variance"), py::arg("scale"), py::arg("bias"),
        py::kw_only(), py::arg("name") = "",
        "y = (x - mean) * inv_variance * scale + bias per channel of x [N,C,...]; the others are "
        "[1,C,1,...]; inv_variance is 1/sqrt(variance + epsilon). x may be ragged [B,H,S,D], and y "
        "then is.");
    c.def(
        "batchnorm_inference_variance_ext",
        [](Graph& g, TensorPtr x, TensorPtr mean, TensorPtr variance, TensorPtr scale,
           TensorPtr bias, TensorPtr epsilon, std::string name) {
            BatchnormInferenceAttributesVarianceExt a;
            a.set_epsilon(std::move(epsilon)).set_name(std::move(name));
            return g.batchnorm_inference_variance_ext(std::move(x), std::move(mean),
                                                      std::move(variance), std::move(scale),
                                                      std::move(bias), a);
        },
        py::arg("x"), py::arg("mean"), py::arg("variance"), py::arg("scale"), py::arg("bias"),
        py::arg("epsilon"), py::kw_only(), py::arg("name") = "",
        "batchnorm_inference from the variance and epsilon, a pass-by-value scalar.");
    c.def(
        "batchnorm_backward",
        [](Graph& g, TensorPtr dy, TensorPtr x, TensorPtr scale, TensorPtr mean,
           TensorPtr inv_variance, std::vector<TensorPtr> peer_stats, std::string name) {
            BatchnormBackwardAttributes a;
            a.set_saved_mean_and_inv_variance(std::move(mean), std::move(inv_variance));
            a.set_peer_stats(std::move(peer_stats)).set_name(std::move(name));
            const auto [dx, dscale, dbias] =
                g.batchnorm_backward(std::move(dy), std::move(x), std::move(scale), a);
            return std::tuple(dx, dscale, dbias);
        },
        py::arg("dy"), py::arg("x"), py::arg("scale"), py::arg("mean"), py::arg("inv_variance"),
        py::arg("peer_stats") = std::vector<TensorPtr>(), py::kw_only(), py::arg("name") = "",
        "Gradients (dx, dscale, dbias) of batchnorm from its mean and inv_variance; dx with dims "
        "of x [N,C,...], dscale and dbias [1,C,1,...]. x, dy and dx are ragged [B,H,S,D], or none "
        "is.");
}

template <class Enum, size_t Count>
void bind_wire_enum(py::module_& m, const char* name, const char* doc, const Enum (&values)[Count],
                    const char* (*name_of)(Enum)) {
    py::native_enum<Enum> bound(m, name, "enum.IntEnum", doc);
    for (const Enum value : values) bound.value(name_of(value), value);
    bound.finalize();
}

}  // namespace

void bind_graph_op_types(py::module_& m) {
    bind_wire_enum(m, "PointwiseMode", "Elementwise functions, by hipDNN's numbers.",
                   schema::EnumValuesPointwiseMode(), schema::EnumNamePointwiseMode);
    bind_wire_enum(m, "ReductionMode", "How elements are combined, by hipDNN's numbers.",
                   schema::EnumValuesReductionMode(), schema::EnumNameReductionMode);
    bind_wire_enum(m, "NormFwdPhase",
                   "Whether a normalization also gives the statistics for its gradients.",
                   schema::EnumValuesNormFwdPhase(), schema::EnumNameNormFwdPhase);
}

void bind_graph_ops(py::class_<Graph>& c) {
    bind_pointwise(c);
    bind_linear(c);
    bind_rmsnorm(c);
    bind_layernorm(c);
    bind_batchnorm(c);
}

}  // namespace raggeddnn::python
