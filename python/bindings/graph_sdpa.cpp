// Graph.sdpa and Graph.sdpa_backward.
#include <pybind11/typing.h>

#include <optional>
#include <string>
#include <utility>

#include "graph_ops.hpp"

namespace raggeddnn::python {

namespace {

using MaybeTensor = std::optional<TensorPtr>;
using Tensors = py::typing::Tuple<TensorPtr, py::ellipsis>;

// The options that both calls share, as Python gives them.
struct SdpaCall {
    const char* op;
    py::object attn_scale;
    MaybeTensor bias, seq_len_q, seq_len_kv;
    bool causal_mask;
    DiagonalAlignment diagonal_alignment;
    std::optional<int64_t> left_bound, right_bound;
    std::optional<float> dropout_probability;
    MaybeTensor seed, offset;
    std::string name;

    template <class Attributes>
    Attributes attributes() const {
        Attributes a;
        a.set_name(name).set_bias(bias.value_or(nullptr));
        a.set_seq_len_q(seq_len_q.value_or(nullptr)).set_seq_len_kv(seq_len_kv.value_or(nullptr));
        if (py::isinstance<TensorAttributes>(attn_scale)) {
            a.set_attn_scale(attn_scale.cast<TensorPtr>());
        } else if (!attn_scale.is_none()) {
            a.set_attn_scale(std::get<double>(scalar_from_python(
                attn_scale, DataType::DOUBLE, "[" + std::string(op) + "] attn_scale")));
        }
        if (causal_mask && right_bound && *right_bound != 0) {
            invalid("[", op, "] causal_mask with right_bound ", *right_bound,
                    ", expected no right_bound or 0: causal_mask is right_bound 0");
        }
        a.set_diagonal_alignment(diagonal_alignment);
        a.set_diagonal_band_left_bound(left_bound);
        a.set_diagonal_band_right_bound(causal_mask ? std::optional<int64_t>(0) : right_bound);
        a.set_dropout(dropout_probability, seed.value_or(nullptr), offset.value_or(nullptr));
        return a;
    }
};

std::pair<TensorPtr, MaybeTensor> sdpa(Graph& g, TensorPtr q, TensorPtr k, TensorPtr v,
                                       py::object attn_scale, MaybeTensor bias,
                                       MaybeTensor seq_len_q, MaybeTensor seq_len_kv,
                                       bool causal_mask, DiagonalAlignment diagonal_alignment,
                                       std::optional<int64_t> left_bound,
                                       std::optional<int64_t> right_bound,
                                       std::optional<float> dropout_probability, MaybeTensor seed,
                                       MaybeTensor offset, bool generate_stats, std::string name) {
    const SdpaCall call{"sdpa",
                        std::move(attn_scale),
                        bias,
                        seq_len_q,
                        seq_len_kv,
                        causal_mask,
                        diagonal_alignment,
                        left_bound,
                        right_bound,
                        dropout_probability,
                        seed,
                        offset,
                        std::move(name)};
    auto attributes = call.attributes<SdpaAttributes>();
    attributes.set_generate_stats(generate_stats);
    const auto [o, stats] = g.sdpa(q, k, v, std::move(attributes));
    return {o, stats ? MaybeTensor(stats) : std::nullopt};
}

Tensors sdpa_backward(Graph& g, TensorPtr q, TensorPtr k, TensorPtr v, TensorPtr o, TensorPtr d_o,
                      TensorPtr stats, py::object attn_scale, MaybeTensor bias,
                      MaybeTensor seq_len_q, MaybeTensor seq_len_kv, bool causal_mask,
                      DiagonalAlignment diagonal_alignment, std::optional<int64_t> left_bound,
                      std::optional<int64_t> right_bound, std::optional<float> dropout_probability,
                      MaybeTensor seed, MaybeTensor offset, MaybeTensor dstats, bool generate_dbias,
                      std::string name) {
    const SdpaCall call{"sdpa_backward",
                        std::move(attn_scale),
                        bias,
                        seq_len_q,
                        seq_len_kv,
                        causal_mask,
                        diagonal_alignment,
                        left_bound,
                        right_bound,
                        dropout_probability,
                        seed,
                        offset,
                        std::move(name)};
    auto attributes = call.attributes<SdpaBackwardAttributes>();
    attributes.set_dstats(dstats.value_or(nullptr)).set_generate_dbias(generate_dbias);
    const auto [dq, dk, dv, dbias] = g.sdpa_backward(q, k, v, o, d_o, stats, std::move(attributes));
    if (dbias) return py::make_tuple(dq, dk, dv, dbias);
    return py::make_tuple(dq, dk, dv);
}

constexpr const char* SDPA_DOC =
    "Scaled dot-product attention; returns (o, stats), stats None unless generate_stats. q "
    "[B,Hq,Sq,D], k [B,Hk,Skv,D], v [B,Hv,Skv,Dv], o [B,Hq,Sq,Dv], stats [B,Hq,Sq,1] FLOAT: "
    "natural log-sum-exp. attn_scale: a number, a scalar tensor, or None (1/sqrt(D)). Key c is "
    "visible to row r when r + offset - left_bound <= c <= r + offset + right_bound; offset is 0 "
    "for TOP_LEFT and valid_kv - valid_q of the batch for BOTTOM_RIGHT; None or negative: open. "
    "dropout_probability (0 <= p < 1) drops probabilities by seed and offset, INT32 or INT64 "
    "scalars or tensors of one element; stats do not see it.";

constexpr const char* SDPA_BACKWARD_DOC =
    "The gradients (dq, dk, dv) of sdpa with the same options, and dbias as a fourth result with "
    "generate_dbias. o and stats are what sdpa wrote, do is the gradient of o, dstats that of "
    "stats (an extension: other readers and engines refuse such a graph). A gradient has the dims "
    "and type of its operand; unless it is given strides it lies as its operand does, ragged "
    "offset and multiplier included. dbias has the dims of bias, summed over broadcast axes.";

}  // namespace

void bind_graph_sdpa(py::class_<Graph>& c) {
    c.def("sdpa", &sdpa, py::arg("q"), py::arg("k"), py::arg("v"), py::kw_only(),
          py::arg("attn_scale") = py::none(), py::arg("bias") = py::none(),
          py::arg("seq_len_q") = py::none(), py::arg("seq_len_kv") = py::none(),
          py::arg("causal_mask") = false,
          py::arg("diagonal_alignment") = DiagonalAlignment::TOP_LEFT,
          py::arg("left_bound") = py::none(), py::arg("right_bound") = py::none(),
          py::arg("dropout_probability") = py::none(), py::arg("seed") = py::none(),
          py::arg("offset") = py::none(), py::arg("generate_stats") = false, py::arg("name") = "",
          SDPA_DOC);
    c.def("sdpa_backward", &sdpa_backward, py::arg("q"), py::arg("k"), py::arg("v"), py::arg("o"),
          py::arg("do"), py::arg("stats"), py::kw_only(), py::arg("attn_scale") = py::none(),
          py::arg("bias") = py::none(), py::arg("seq_len_q") = py::none(),
          py::arg("seq_len_kv") = py::none(), py::arg("causal_mask") = false,
          py::arg("diagonal_alignment") = DiagonalAlignment::TOP_LEFT,
          py::arg("left_bound") = py::none(), py::arg("right_bound") = py::none(),
          py::arg("dropout_probability") = py::none(), py::arg("seed") = py::none(),
          py::arg("offset") = py::none(), py::arg("dstats") = py::none(),
          py::arg("generate_dbias") = false, py::arg("name") = "", SDPA_BACKWARD_DOC);
}

}  // namespace raggeddnn::python
