// The operations of the reference engine: one builder each, in one table.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "raggeddnn/plugin/engine.hpp"

namespace raggeddnn::reference {

// A node ready to run, and which tensors it reads and writes (without runtime scalars and offsets,
// which come from the variant pack).
struct BuiltNode {
    std::unique_ptr<plugin::Plan> plan;
    std::vector<int64_t> inputs;
    std::vector<int64_t> outputs;
};

// Reads and checks one node; throws raggeddnn::Exception with the reason when it cannot be run. The
// plan finds all its tensors, virtual ones too, in the buffers that it is given at execute.
using NodeBuilder = BuiltNode (*)(const plugin::GraphView& graph, const schema::Node& node);

BuiltNode build_sdpa_forward(const plugin::GraphView& graph, const schema::Node& node);
BuiltNode build_sdpa_backward(const plugin::GraphView& graph, const schema::Node& node);
BuiltNode build_pointwise(const plugin::GraphView& graph, const schema::Node& node);
BuiltNode build_matmul(const plugin::GraphView& graph, const schema::Node& node);
BuiltNode build_reduction(const plugin::GraphView& graph, const schema::Node& node);
BuiltNode build_rmsnorm(const plugin::GraphView& graph, const schema::Node& node);
BuiltNode build_rmsnorm_backward(const plugin::GraphView& graph, const schema::Node& node);
BuiltNode build_layernorm(const plugin::GraphView& graph, const schema::Node& node);
BuiltNode build_layernorm_backward(const plugin::GraphView& graph, const schema::Node& node);
BuiltNode build_batchnorm(const plugin::GraphView& graph, const schema::Node& node);
BuiltNode build_batchnorm_inference(const plugin::GraphView& graph, const schema::Node& node);
BuiltNode build_batchnorm_backward(const plugin::GraphView& graph, const schema::Node& node);

struct Op {
    schema::NodeAttributes type;
    NodeBuilder build;
    const char* kernel;  // how it is computed, for people
};

inline constexpr const char* ROW_BY_ROW =
    "one query row at a time over its visible keys, sums in double, no tiles";
inline constexpr const char* PLAIN_LOOPS =
    "plain loops, sums in double (in 128 bits between integers), no tiles";

// A row per operation.
inline constexpr Op OPS[] = {
    {schema::NodeAttributes::SdpaAttributes, build_sdpa_forward, ROW_BY_ROW},
    {schema::NodeAttributes::SdpaBackwardAttributes, build_sdpa_backward, ROW_BY_ROW},
    {schema::NodeAttributes::PointwiseAttributes, build_pointwise, PLAIN_LOOPS},
    {schema::NodeAttributes::MatmulAttributes, build_matmul, PLAIN_LOOPS},
    {schema::NodeAttributes::ReductionAttributes, build_reduction, PLAIN_LOOPS},
    {schema::NodeAttributes::RMSNormAttributes, build_rmsnorm, PLAIN_LOOPS},
    {schema::NodeAttributes::RMSNormBackwardAttributes, build_rmsnorm_backward, PLAIN_LOOPS},
    {schema::NodeAttributes::LayernormAttributes, build_layernorm, PLAIN_LOOPS},
    {schema::NodeAttributes::LayernormBackwardAttributes, build_layernorm_backward, PLAIN_LOOPS},
    {schema::NodeAttributes::BatchnormAttributes, build_batchnorm, PLAIN_LOOPS},
    {schema::NodeAttributes::BatchnormBackwardAttributes, build_batchnorm_backward, PLAIN_LOOPS},
    {schema::NodeAttributes::BatchnormInferenceAttributes, build_batchnorm_inference, PLAIN_LOOPS},
    {schema::NodeAttributes::BatchnormInferenceAttributesVarianceExt, build_batchnorm_inference,
     PLAIN_LOOPS},
};

}  // namespace raggeddnn::reference
