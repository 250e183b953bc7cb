// How an operation fills in what its author left out, one function per op. Works on the wire's
// object tree, after uids are assigned and before anything is checked: it must survive wrong
// shapes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "raggeddnn/schema/graph_generated.h"

namespace raggeddnn::graph_ops {

struct InferContext {
    std::function<schema::TensorAttributesT&(int64_t uid)> tensor;
    // Adds a DOUBLE compile-time constant to the graph and returns its uid.
    std::function<int64_t(double value)> add_constant;
};

// Fills dims, strides and types of o and stats, and the scale: `scale`, else 1/sqrt(D).
void infer_sdpa(schema::SdpaAttributesT& attributes, std::optional<double> scale,
                const InferContext& context);

// Fills dims, strides, ragged offsets of the gradients, and the scale likewise.
void infer_sdpa_backward(schema::SdpaBackwardAttributesT& attributes, std::optional<double> scale,
                         const InferContext& context);

}  // namespace raggeddnn::graph_ops
