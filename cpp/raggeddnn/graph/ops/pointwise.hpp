// The options of an elementwise node, by hipDNN's names.
#pragma once

#include <optional>

#include "raggeddnn/graph/ops/op_attributes.hpp"

namespace raggeddnn {

using PointwiseMode = schema::PointwiseMode;

// A parameter of another mode than the one set is refused when the graph is checked.
class PointwiseAttributes : public OpAttributes<PointwiseAttributes, schema::PointwiseAttributesT> {
public:
    PointwiseAttributes& set_mode(PointwiseMode mode) {
        table_.operation = mode;
        return *this;
    }
    // RELU: at or below the lower clip (default 0) the line has the slope (default 0); above the
    // upper clip (default none) it is flat.
    PointwiseAttributes& set_relu_lower_clip(float value) {
        table_.relu_lower_clip = value;
        return *this;
    }
    PointwiseAttributes& set_relu_upper_clip(float value) {
        table_.relu_upper_clip = value;
        return *this;
    }
    PointwiseAttributes& set_relu_lower_clip_slope(float value) {
        table_.relu_lower_clip_slope = value;
        return *this;
    }
    // x sigmoid(beta x); default 1.
    PointwiseAttributes& set_swish_beta(float value) {
        table_.swish_beta = value;
        return *this;
    }
    // alpha (e^x - 1) below 0; default 1.
    PointwiseAttributes& set_elu_alpha(float value) {
        table_.elu_alpha = value;
        return *this;
    }
    // log(1 + e^(beta x)) / beta; default 1.
    PointwiseAttributes& set_softplus_beta(float value) {
        table_.softplus_beta = value;
        return *this;
    }
    // Of GEN_INDEX.
    PointwiseAttributes& set_axis(int64_t axis) {
        table_.axis_tensor_uid = axis;
        return *this;
    }
};

}  // namespace raggeddnn
