#include "raggeddnn/graph/ops/checks.hpp"

#include "raggeddnn/schema/sdpa_problem.hpp"

namespace raggeddnn::graph_ops {

void check_node(const schema::GraphView& graph, const schema::Node& node) {
    switch (node.attributes_type()) {
        case schema::NodeAttributes::SdpaAttributes: schema::read_sdpa_problem(graph, node); break;
        default: break;
    }
}

}  // namespace raggeddnn::graph_ops
