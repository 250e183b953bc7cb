// An elementwise node as plain data: operands viewed in the dims of the output, and the parameters
// of its mode.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "raggeddnn/schema/operand.hpp"

namespace raggeddnn::schema {

struct PointwiseProblem {
    PointwiseMode mode = PointwiseMode::UNSET;
    std::vector<Operand> inputs;  // one to three, broadcast to out
    Operand out;
    // Of RELU: below lower_clip the line has slope `lower_slope`, above upper_clip it is flat.
    double lower_clip = 0.0;
    double upper_clip = std::numeric_limits<double>::infinity();
    double lower_slope = 0.0;
    double swish_beta = 1.0;
    double elu_alpha = 1.0;
    double softplus_beta = 1.0;
    size_t axis = 0;  // of GEN_INDEX
};

// 0 for UNSET and numbers that are no mode.
inline size_t input_count(PointwiseMode mode) {
    switch (mode) {
        case PointwiseMode::BINARY_SELECT: return 3;
        case PointwiseMode::ADD:
        case PointwiseMode::ADD_SQUARE:
        case PointwiseMode::CMP_EQ:
        case PointwiseMode::CMP_GE:
        case PointwiseMode::CMP_GT:
        case PointwiseMode::CMP_LE:
        case PointwiseMode::CMP_LT:
        case PointwiseMode::CMP_NEQ:
        case PointwiseMode::DIV:
        case PointwiseMode::ELU_BWD:
        case PointwiseMode::GELU_APPROX_TANH_BWD:
        case PointwiseMode::GELU_BWD:
        case PointwiseMode::LOGICAL_AND:
        case PointwiseMode::LOGICAL_OR:
        case PointwiseMode::MAX_OP:
        case PointwiseMode::MIN_OP:
        case PointwiseMode::MUL:
        case PointwiseMode::RELU_BWD:
        case PointwiseMode::SIGMOID_BWD:
        case PointwiseMode::SOFTPLUS_BWD:
        case PointwiseMode::SUB:
        case PointwiseMode::SWISH_BWD:
        case PointwiseMode::TANH_BWD: return 2;
        default: return mode > PointwiseMode::UNSET && mode <= PointwiseMode::TANH_FWD ? 1 : 0;
    }
}

namespace detail {

// A parameter of another mode would be silently without effect.
inline void read_parameter(const NodeReader& reader, const PointwiseProblem& p, const char* name,
                           const flatbuffers::Optional<float>& value, PointwiseMode forward,
                           PointwiseMode backward, double& parameter) {
    if (!value.has_value()) return;
    if (p.mode != forward && p.mode != backward) {
        reader.refuse(name, " is set for mode ", EnumNamePointwiseMode(p.mode), ", expected ",
                      EnumNamePointwiseMode(forward), " or ", EnumNamePointwiseMode(backward));
    }
    parameter = static_cast<double>(*value);
}

inline void read_axis(const NodeReader& reader, PointwiseProblem& p, const PointwiseAttributes& a) {
    const bool is_index = p.mode == PointwiseMode::GEN_INDEX;
    if (!a.axis_tensor_uid().has_value()) {
        if (is_index) reader.is_missing("axis", "an axis of the output for mode GEN_INDEX");
        return;
    }
    const int64_t axis = *a.axis_tensor_uid();
    if (!is_index) {
        reader.refuse("axis is set for mode ", EnumNamePointwiseMode(p.mode),
                      ", expected GEN_INDEX");
    }
    if (axis < 0 || axis >= static_cast<int64_t>(p.out.rank())) {
        reader.refuse("axis is ", axis, ", expected 0 to ", p.out.rank() - 1);
    }
    p.axis = static_cast<size_t>(axis);
}

inline void read_inputs(const NodeReader& reader, PointwiseProblem& p,
                        const PointwiseAttributes& a) {
    const size_t count = input_count(p.mode);
    const flatbuffers::Optional<int64_t> uids[] = {a.in_0_tensor_uid(), a.in_1_tensor_uid(),
                                                   a.in_2_tensor_uid()};
    const char* const roles[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; ++i) {
        const bool is_set = uids[i].has_value() && (i > 0 || *uids[i] != 0 || count > 0);
        if (i < count && !is_set) {
            reader.is_missing(roles[i], message("a tensor: mode ", EnumNamePointwiseMode(p.mode),
                                                " takes ", count));
        }
        if (i >= count && is_set) {
            reader.refuse(roles[i], " is set for mode ", EnumNamePointwiseMode(p.mode),
                          ", expected unset: the mode takes ", count);
        }
        if (!is_set) continue;
        p.inputs.push_back(reader.tensor_or_scalar(roles[i], *uids[i]));
        Operand& input = p.inputs.back();
        if (input.ragged && !p.out.ragged) reader.check_raggedness(p.out, input);
        reader.broadcast(input, p.out.dims);
    }
}

}  // namespace detail

// Throws INVALID_VALUE or ATTRIBUTE_NOT_SET, naming the tensor, what was got and what was expected.
inline PointwiseProblem read_pointwise_problem(const GraphView& graph, const Node& node) {
    const NodeReader reader(graph, "pointwise");
    const auto& a = reader.attributes<PointwiseAttributes>(node);
    PointwiseProblem p;
    p.mode = a.operation();
    if (input_count(p.mode) == 0) {
        reader.refuse("mode is ", static_cast<int>(p.mode), ", expected 1 to ",
                      static_cast<int>(PointwiseMode::TANH_FWD));
    }
    p.out = reader.tensor("out", a.out_0_tensor_uid());
    detail::read_inputs(reader, p, a);
    reader.check_output(p.out, p.out.dims);
    using Mode = PointwiseMode;
    detail::read_parameter(reader, p, "relu_lower_clip", a.relu_lower_clip(), Mode::RELU_FWD,
                           Mode::RELU_BWD, p.lower_clip);
    detail::read_parameter(reader, p, "relu_upper_clip", a.relu_upper_clip(), Mode::RELU_FWD,
                           Mode::RELU_BWD, p.upper_clip);
    detail::read_parameter(reader, p, "relu_lower_clip_slope", a.relu_lower_clip_slope(),
                           Mode::RELU_FWD, Mode::RELU_BWD, p.lower_slope);
    detail::read_parameter(reader, p, "swish_beta", a.swish_beta(), Mode::SWISH_FWD,
                           Mode::SWISH_BWD, p.swish_beta);
    detail::read_parameter(reader, p, "elu_alpha", a.elu_alpha(), Mode::ELU_FWD, Mode::ELU_BWD,
                           p.elu_alpha);
    detail::read_parameter(reader, p, "softplus_beta", a.softplus_beta(), Mode::SOFTPLUS_FWD,
                           Mode::SOFTPLUS_BWD, p.softplus_beta);
    if (p.softplus_beta == 0.0) reader.refuse("softplus_beta is 0, expected another number");
    detail::read_axis(reader, p, a);
    std::vector<const Operand*> inputs;
    for (const Operand& input : p.inputs) inputs.push_back(&input);
    reader.check_distinct(inputs, {&p.out});
    return p;
}

}  // namespace raggeddnn::schema
