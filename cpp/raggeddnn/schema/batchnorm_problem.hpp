// Batch normalization nodes as plain data. Channels are axis 1 of x [N, C, ...]; whatever is per
// channel has dims [1, C, 1, ...] and is viewed in the dims of x, with stride 0 elsewhere. Of a
// ragged x [B, H, S, D] the channels are the heads, over the rows that the batches have.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "raggeddnn/schema/norm_operands.hpp"
#include "raggeddnn/schema/operand.hpp"

namespace raggeddnn::schema {

inline constexpr size_t CHANNEL_AXIS = 1;

struct BatchnormProblem {
    Operand x;
    Operand scale;
    Operand bias;
    Operand epsilon;
    Operand y;
    std::optional<Operand> mean;  // outputs
    std::optional<Operand> inv_variance;
    // next = (1 - momentum) * previous + momentum * current, of the unbiased variance; all or none.
    std::optional<Operand> momentum;
    std::optional<Operand> prev_mean;
    std::optional<Operand> prev_variance;
    std::optional<Operand> next_mean;
    std::optional<Operand> next_variance;
    std::vector<std::string> unread;  // set on the node and not read above
};

struct BatchnormInferenceProblem {
    Operand x;
    Operand mean;
    Operand deviation;  // inv_variance, or the variance where epsilon is set
    std::optional<Operand> epsilon;
    Operand scale;
    Operand bias;
    Operand y;
};

struct BatchnormBackwardProblem {
    Operand dy;
    Operand x;
    Operand scale;
    Operand mean;
    Operand inv_variance;
    Operand dx;
    Operand dscale;
    Operand dbias;
    std::vector<std::string> unread;
};

namespace detail {

inline void check_image(const NodeReader& reader, const Operand& x) {
    reader.check_real(x);
    if (x.rank() < 2) {
        reader.refuse(x.label, " has rank ", x.rank(), ", expected at least 2: [N, C, ...]");
    }
}

inline void view_channels(const NodeReader& reader, Operand& operand, const Operand& x,
                          bool is_output = false) {
    reader.check_dense(operand);
    reader.check_real(operand);
    Dims expected(x.rank(), 1);
    expected[CHANNEL_AXIS] = x.dims[CHANNEL_AXIS];
    if (operand.dims != expected) {
        reader.refuse(operand.label, " has dims ", list_of(operand.dims), ", expected ",
                      list_of(expected), ", one per channel of ", x.label);
    }
    if (is_output) reader.check_output(operand, expected);
    reader.broadcast(operand, x.dims);
}

inline void read_running_statistics(const NodeReader& reader, BatchnormProblem& p,
                                    const BatchnormAttributes& a) {
    p.prev_mean = reader.tensor("prev_running_mean", a.prev_running_mean_tensor_uid());
    p.prev_variance = reader.tensor("prev_running_variance", a.prev_running_variance_tensor_uid());
    p.next_mean = reader.tensor("next_running_mean", a.next_running_mean_tensor_uid());
    p.next_variance = reader.tensor("next_running_variance", a.next_running_variance_tensor_uid());
    if (a.momentum_tensor_uid().has_value()) {
        p.momentum = reader.parameter("momentum", *a.momentum_tensor_uid());
    }
    const std::pair<const char*, bool> slots[] = {
        {"prev_running_mean", p.prev_mean.has_value()},
        {"prev_running_variance", p.prev_variance.has_value()},
        {"momentum", p.momentum.has_value()},
        {"next_running_mean", p.next_mean.has_value()},
        {"next_running_variance", p.next_variance.has_value()},
    };
    for (const auto& [set, has] : slots) {
        if (!has) continue;
        for (const auto& [unset, has_other] : slots) {
            if (!has_other) {
                reader.is_missing(
                    unset, message("it: ", set, " is set, and running statistics need all five"));
            }
        }
    }
    for (auto* input : {&p.prev_mean, &p.prev_variance}) {
        if (*input) view_channels(reader, **input, p.x);
    }
    for (auto* output : {&p.next_mean, &p.next_variance}) {
        if (*output) view_channels(reader, **output, p.x, true);
    }
}

inline std::vector<std::string> unread_peers(const flatbuffers::Vector<int64_t>* peers) {
    if (!peers || peers->size() == 0) return {};
    return {"peer_stats"};
}

}  // namespace detail

inline BatchnormProblem read_batchnorm_problem(const GraphView& graph, const Node& node) {
    const NodeReader reader(graph, "batchnorm");
    const auto& a = reader.attributes<BatchnormAttributes>(node);
    BatchnormProblem p;
    detail::read_forward_operands(reader, a, p);
    p.mean = reader.tensor("mean", a.mean_tensor_uid());
    p.inv_variance = reader.tensor("inv_variance", a.inv_variance_tensor_uid());
    detail::check_image(reader, p.x);
    detail::view_channels(reader, p.scale, p.x);
    detail::view_channels(reader, p.bias, p.x);
    reader.check_like(p.y, p.x);
    reader.check_output(p.y, p.x.dims);
    if (p.mean) detail::view_channels(reader, *p.mean, p.x, true);
    if (p.inv_variance) detail::view_channels(reader, *p.inv_variance, p.x, true);
    detail::read_running_statistics(reader, p, a);
    std::vector<const Operand*> inputs = {&p.x, &p.scale, &p.bias, &p.epsilon};
    for (const auto* input : {&p.momentum, &p.prev_mean, &p.prev_variance}) {
        if (*input) inputs.push_back(&**input);
    }
    std::vector<const Operand*> outputs = {&p.y};
    for (const auto* output : {&p.mean, &p.inv_variance, &p.next_mean, &p.next_variance}) {
        if (*output) outputs.push_back(&**output);
    }
    reader.check_distinct(inputs, outputs);
    p.unread = detail::unread_peers(a.peer_stats_tensor_uid());
    return p;
}

namespace detail {

template <class Attributes>
BatchnormInferenceProblem read_inference(const NodeReader& reader, const Attributes& a,
                                         Operand deviation) {
    BatchnormInferenceProblem p;
    read_forward_operands(reader, a, p);
    p.mean = reader.tensor("mean", a.mean_tensor_uid());
    p.deviation = std::move(deviation);
    check_image(reader, p.x);
    for (Operand* operand : {&p.mean, &p.deviation, &p.scale, &p.bias}) {
        view_channels(reader, *operand, p.x);
    }
    reader.check_like(p.y, p.x);
    reader.check_output(p.y, p.x.dims);
    reader.check_distinct({&p.x, &p.mean, &p.deviation, &p.scale, &p.bias}, {&p.y});
    return p;
}

}  // namespace detail

// Either form of inference.
inline BatchnormInferenceProblem read_batchnorm_inference_problem(const GraphView& graph,
                                                                  const Node& node) {
    const NodeReader reader(graph, "batchnorm_inference");
    if (const auto* a = node.attributes_as_BatchnormInferenceAttributesVarianceExt()) {
        return detail::read_inference(reader, *a,
                                      reader.tensor("variance", a->variance_tensor_uid()));
    }
    const auto& a = reader.attributes<BatchnormInferenceAttributes>(node);
    return detail::read_inference(reader, a,
                                  reader.tensor("inv_variance", a.inv_variance_tensor_uid()));
}

inline BatchnormBackwardProblem read_batchnorm_backward_problem(const GraphView& graph,
                                                                const Node& node) {
    const NodeReader reader(graph, "batchnorm_backward");
    const auto& a = reader.attributes<BatchnormBackwardAttributes>(node);
    BatchnormBackwardProblem p;
    detail::read_backward_operands(reader, a, p);
    p.mean = reader.tensor("mean", a.mean_tensor_uid().value_or(0));
    p.inv_variance = reader.tensor("inv_variance", a.inv_variance_tensor_uid().value_or(0));
    detail::check_image(reader, p.x);
    reader.check_like(p.dy, p.x);
    reader.check_like(p.dx, p.x);
    reader.check_output(p.dx, p.x.dims);
    for (Operand* operand : {&p.scale, &p.mean, &p.inv_variance}) {
        detail::view_channels(reader, *operand, p.x);
    }
    detail::view_channels(reader, p.dscale, p.x, true);
    detail::view_channels(reader, p.dbias, p.x, true);
    reader.check_distinct({&p.dy, &p.x, &p.scale, &p.mean, &p.inv_variance},
                          {&p.dx, &p.dscale, &p.dbias});
    p.unread = detail::unread_peers(a.peer_stats_tensor_uid());
    return p;
}

}  // namespace raggeddnn::schema
