// The operands that every normalization has, under the names that its tables share.
#pragma once

#include "raggeddnn/schema/operand.hpp"

namespace raggeddnn::schema::detail {

template <class Problem, class Attributes>
void read_forward_operands(const NodeReader& reader, const Attributes& a, Problem& p) {
    p.x = reader.tensor("x", a.x_tensor_uid());
    p.scale = reader.tensor("scale", a.scale_tensor_uid());
    p.bias = reader.tensor("bias", a.bias_tensor_uid());
    if constexpr (requires { a.epsilon_tensor_uid(); }) {
        p.epsilon = reader.parameter("epsilon", a.epsilon_tensor_uid());
    }
    p.y = reader.tensor("y", a.y_tensor_uid());
}

template <class Problem, class Attributes>
void read_backward_operands(const NodeReader& reader, const Attributes& a, Problem& p) {
    p.dy = reader.tensor("dy", a.dy_tensor_uid());
    p.x = reader.tensor("x", a.x_tensor_uid());
    p.scale = reader.tensor("scale", a.scale_tensor_uid());
    p.dx = reader.tensor("dx", a.dx_tensor_uid());
    p.dscale = reader.tensor("dscale", a.dscale_tensor_uid());
    p.dbias = reader.tensor("dbias", a.dbias_tensor_uid());
}

}  // namespace raggeddnn::schema::detail
