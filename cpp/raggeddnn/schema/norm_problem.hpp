// RMS and layer normalization nodes as plain data. Every operand is viewed in the dims of x, with
// stride 0 where it broadcasts.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "raggeddnn/schema/norm_operands.hpp"
#include "raggeddnn/schema/operand.hpp"

namespace raggeddnn::schema {

// Which axes share one mean and one variance: those that scale spans.
struct NormAxes {
    std::vector<bool> is_normalized;  // per axis of x
    Dims scale_dims;                  // of scale and bias, with the rank of x: 1 elsewhere
    Dims stat_dims;                   // of mean, inv_rms and inv_variance: 1 there
};

struct NormProblem {
    bool has_mean = false;  // layer normalization; else RMS, which centres nothing
    NormAxes axes;
    Operand x;  // ragged ones are [B, H, S, D], and every row is normalized by itself
    Operand scale;
    std::optional<Operand> bias;
    Operand epsilon;
    Operand y;
    std::optional<Operand> mean;           // outputs
    std::optional<Operand> inv_deviation;  // 1/sqrt(mean square or variance + epsilon)
};

struct NormBackwardProblem {
    bool has_mean = false;
    NormAxes axes;
    Operand dy;
    Operand x;
    Operand scale;
    std::optional<Operand> mean;  // inputs; without both, epsilon says how to make them again
    std::optional<Operand> inv_deviation;
    std::optional<Operand> epsilon;
    Operand dx;
    Operand dscale;  // dims axes.scale_dims, dense
    std::optional<Operand> dbias;
};

namespace detail {

// `trailing`: how many last axes are normalized; 0: those that scale spans.
inline NormAxes read_norm_axes(const NodeReader& reader, const Operand& x, const Operand& scale,
                               int64_t trailing) {
    if (trailing < 0 || trailing > static_cast<int64_t>(x.rank())) {
        reader.refuse("normalized_dim_count is ", trailing, ", expected 1 to ", x.rank(),
                      " as the rank of ", x.label, ", or 0 for the axes that scale spans");
    }
    NormAxes axes;
    axes.scale_dims = scale.dims;
    if (scale.rank() < x.rank()) {
        axes.scale_dims.insert(axes.scale_dims.begin(), x.rank() - scale.rank(), 1);
    }
    axes.stat_dims = x.dims;
    Dims expected(x.rank(), 1);
    for (size_t axis = 0; axis < x.rank() && axes.scale_dims.size() == x.rank(); ++axis) {
        const bool is_spanned = axes.scale_dims[axis] != 1;
        const bool is_trailing = static_cast<int64_t>(x.rank() - axis) <= trailing;
        axes.is_normalized.push_back(trailing == 0 ? is_spanned : is_trailing);
        if (!axes.is_normalized.back()) continue;
        axes.stat_dims[axis] = 1;
        expected[axis] = x.dims[axis];
    }
    if (axes.scale_dims != expected) {
        reader.refuse(scale.label, " has dims ", list_of(scale.dims), ", expected ",
                      list_of(expected), ": 1, or as in ", x.label, " where normalized");
    }
    for (const size_t axis : {BATCH_AXIS, SEQUENCE_AXIS}) {
        if (x.ragged && axes.is_normalized[axis]) {
            reader.refuse(scale.label, " has dims ", list_of(scale.dims), ", expected 1 over axis ",
                          axis, ": ", x.label, " is ragged");
        }
    }
    return axes;
}

inline void read_scale_like(const NodeReader& reader, Operand& operand, const NormAxes& axes,
                            const Dims& target) {
    reader.check_dense(operand);
    reader.check_real(operand);
    Dims dims = operand.dims;
    if (dims.size() < axes.scale_dims.size()) {
        dims.insert(dims.begin(), axes.scale_dims.size() - dims.size(), 1);
    }
    if (dims != axes.scale_dims) {
        reader.refuse(operand.label, " has dims ", list_of(operand.dims), ", expected ",
                      list_of(axes.scale_dims), " as scale");
    }
    reader.broadcast(operand, target);
}

// Statistics may be dense beside a ragged x.
inline void read_statistic(const NodeReader& reader, std::optional<Operand>& statistic,
                           const NormAxes& axes, const Operand& x, bool is_output) {
    if (!statistic) return;
    reader.check_real(*statistic);
    if (!x.ragged) reader.check_raggedness(*statistic, x);
    if (statistic->dims != axes.stat_dims) {
        reader.refuse(statistic->label, " has dims ", list_of(statistic->dims), ", expected ",
                      list_of(axes.stat_dims));
    }
    if (is_output) reader.check_output(*statistic, axes.stat_dims);
    reader.broadcast(*statistic, x.dims);
}

inline void check_phase(const NodeReader& reader, NormFwdPhase phase, bool has_all, bool has_any,
                        std::string_view statistics) {
    if (phase < NormFwdPhase::NOT_SET || phase > NormFwdPhase::TRAINING) {
        reader.refuse("forward_phase is ", static_cast<int>(phase), ", expected 0 to 2");
    }
    if (phase == NormFwdPhase::TRAINING && !has_all) {
        reader.is_missing(statistics, "outputs: forward_phase is TRAINING");
    }
    if (phase == NormFwdPhase::INFERENCE && has_any) {
        reader.refuse("forward_phase is INFERENCE and ", statistics,
                      " is set, expected TRAINING or no statistics");
    }
}

inline void finish_norm(const NodeReader& reader, NormProblem& p, int64_t trailing) {
    reader.check_real(p.x);
    p.axes = read_norm_axes(reader, p.x, p.scale, trailing);
    read_scale_like(reader, p.scale, p.axes, p.x.dims);
    if (p.bias) read_scale_like(reader, *p.bias, p.axes, p.x.dims);
    reader.check_like(p.y, p.x);
    reader.check_output(p.y, p.x.dims);
    read_statistic(reader, p.mean, p.axes, p.x, true);
    read_statistic(reader, p.inv_deviation, p.axes, p.x, true);
    std::vector<const Operand*> inputs = {&p.x, &p.scale, &p.epsilon};
    if (p.bias) inputs.push_back(&*p.bias);
    std::vector<const Operand*> outputs = {&p.y};
    if (p.mean) outputs.push_back(&*p.mean);
    if (p.inv_deviation) outputs.push_back(&*p.inv_deviation);
    reader.check_distinct(inputs, outputs);
}

inline void finish_norm_backward(const NodeReader& reader, NormBackwardProblem& p,
                                 int64_t trailing) {
    reader.check_real(p.x);
    p.axes = read_norm_axes(reader, p.x, p.scale, trailing);
    read_scale_like(reader, p.scale, p.axes, p.x.dims);
    reader.check_like(p.dy, p.x);
    reader.check_like(p.dx, p.x);
    reader.check_output(p.dx, p.x.dims);
    read_statistic(reader, p.mean, p.axes, p.x, false);
    read_statistic(reader, p.inv_deviation, p.axes, p.x, false);
    const auto finish_gradient = [&](Operand& gradient) {
        reader.check_output(gradient, gradient.dims);
        read_scale_like(reader, gradient, p.axes, p.axes.scale_dims);
    };
    finish_gradient(p.dscale);
    if (p.dbias) finish_gradient(*p.dbias);
    std::vector<const Operand*> inputs = {&p.dy, &p.x, &p.scale};
    for (const auto* input : {&p.mean, &p.inv_deviation, &p.epsilon}) {
        if (*input) inputs.push_back(&**input);
    }
    std::vector<const Operand*> outputs = {&p.dx, &p.dscale};
    if (p.dbias) outputs.push_back(&*p.dbias);
    reader.check_distinct(inputs, outputs);
}

}  // namespace detail

inline NormProblem read_rmsnorm_problem(const GraphView& graph, const Node& node) {
    const NodeReader reader(graph, "rmsnorm");
    const auto& a = reader.attributes<RMSNormAttributes>(node);
    NormProblem p;
    detail::read_forward_operands(reader, a, p);
    p.inv_deviation = reader.tensor("inv_rms", a.inv_rms_tensor_uid());
    const bool has = p.inv_deviation.has_value();
    detail::check_phase(reader, a.forward_phase(), has, has, "inv_rms");
    detail::finish_norm(reader, p, 0);
    return p;
}

inline NormProblem read_layernorm_problem(const GraphView& graph, const Node& node) {
    const NodeReader reader(graph, "layernorm");
    const auto& a = reader.attributes<LayernormAttributes>(node);
    NormProblem p;
    p.has_mean = true;
    detail::read_forward_operands(reader, a, p);
    p.mean = reader.tensor("mean", a.mean_tensor_uid());
    p.inv_deviation = reader.tensor("inv_variance", a.inv_variance_tensor_uid());
    detail::check_phase(reader, a.forward_phase(), p.mean && p.inv_deviation,
                        p.mean || p.inv_deviation, p.mean ? "inv_variance" : "mean");
    detail::finish_norm(reader, p, a.normalized_dim_count());
    return p;
}

inline NormBackwardProblem read_rmsnorm_backward_problem(const GraphView& graph, const Node& node) {
    const NodeReader reader(graph, "rmsnorm_backward");
    const auto& a = reader.attributes<RMSNormBackwardAttributes>(node);
    NormBackwardProblem p;
    detail::read_backward_operands(reader, a, p);
    p.inv_deviation = reader.tensor("inv_rms", a.inv_rms_tensor_uid());
    detail::finish_norm_backward(reader, p, 0);
    return p;
}

inline NormBackwardProblem read_layernorm_backward_problem(const GraphView& graph,
                                                           const Node& node) {
    const NodeReader reader(graph, "layernorm_backward");
    const auto& a = reader.attributes<LayernormBackwardAttributes>(node);
    NormBackwardProblem p;
    p.has_mean = true;
    detail::read_backward_operands(reader, a, p);
    p.mean = reader.tensor("mean", a.mean_tensor_uid());
    p.inv_deviation = reader.tensor("inv_variance", a.inv_variance_tensor_uid());
    if (p.mean.has_value() != p.inv_deviation.has_value()) {
        reader.is_missing(p.mean ? "inv_variance" : "mean", "both statistics or neither");
    }
    if (a.epsilon_tensor_uid().has_value()) {
        p.epsilon = reader.parameter("epsilon", *a.epsilon_tensor_uid());
    }
    if (p.epsilon && p.mean) {
        reader.refuse(p.epsilon->label, " is set and so are mean and inv_variance, expected ",
                      "epsilon or the statistics: epsilon is in them");
    }
    if (!p.epsilon && !p.mean) {
        reader.is_missing("epsilon", "a scalar: mean and inv_variance are not set either");
    }
    detail::finish_norm_backward(reader, p, a.normalized_dim_count());
    return p;
}

}  // namespace raggeddnn::schema
