#include "raggeddnn/graph/ops/checks.hpp"

#include "raggeddnn/schema/batchnorm_problem.hpp"
#include "raggeddnn/schema/linear_problems.hpp"
#include "raggeddnn/schema/norm_problem.hpp"
#include "raggeddnn/schema/pointwise_problem.hpp"
#include "raggeddnn/schema/sdpa_backward_problem.hpp"

namespace raggeddnn::graph_ops {

void check_node(const schema::GraphView& graph, const schema::Node& node) {
    switch (node.attributes_type()) {
        case schema::NodeAttributes::SdpaAttributes: schema::read_sdpa_problem(graph, node); break;
        case schema::NodeAttributes::SdpaBackwardAttributes:
            schema::read_sdpa_backward_problem(graph, node);
            break;
        case schema::NodeAttributes::PointwiseAttributes:
            schema::read_pointwise_problem(graph, node);
            break;
        case schema::NodeAttributes::MatmulAttributes:
            schema::read_matmul_problem(graph, node);
            break;
        case schema::NodeAttributes::ReductionAttributes:
            schema::read_reduction_problem(graph, node);
            break;
        case schema::NodeAttributes::RMSNormAttributes:
            schema::read_rmsnorm_problem(graph, node);
            break;
        case schema::NodeAttributes::RMSNormBackwardAttributes:
            schema::read_rmsnorm_backward_problem(graph, node);
            break;
        case schema::NodeAttributes::LayernormAttributes:
            schema::read_layernorm_problem(graph, node);
            break;
        case schema::NodeAttributes::LayernormBackwardAttributes:
            schema::read_layernorm_backward_problem(graph, node);
            break;
        case schema::NodeAttributes::BatchnormAttributes:
            schema::read_batchnorm_problem(graph, node);
            break;
        case schema::NodeAttributes::BatchnormBackwardAttributes:
            schema::read_batchnorm_backward_problem(graph, node);
            break;
        case schema::NodeAttributes::BatchnormInferenceAttributes:
        case schema::NodeAttributes::BatchnormInferenceAttributesVarianceExt:
            schema::read_batchnorm_inference_problem(graph, node);
            break;
        default: break;
    }
}

}  // namespace raggeddnn::graph_ops
