// The members of Graph that need engines: the frontend declares them, the backend gives them.

#include "raggeddnn/backend/execution_plan.hpp"
#include "raggeddnn/backend/finalize.hpp"
#include "raggeddnn/backend/handle.hpp"
#include "raggeddnn/backend/selection.hpp"
#include "raggeddnn/graph/graph.hpp"
#include "raggeddnn/schema/blob.hpp"

namespace raggeddnn {

namespace {

hipdnnHandle& handle_or_default(hipdnnHandle_t handle) {
    return handle ? *handle : hipdnnHandle::of_thread();
}

}  // namespace

std::shared_ptr<const schema::GraphBlob> Graph::preview() {
    if (blob_) return blob_;
    return std::make_shared<const schema::GraphBlob>(
        schema::GraphBlob::read(backend::finalize(lower())));
}

const schema::GraphBlob& Graph::finalized() {
    if (!blob_) {
        blob_ = preview();
        for (const TensorPtr& t : tensors_) t->is_built_ = true;
    }
    return *blob_;
}

Error Graph::build(hipdnnHandle_t handle) { return build(handle, BuildOptions{}); }

Error Graph::build(hipdnnHandle_t handle, const BuildOptions& options) {
    return as_error([&] {
        finalized();
        plan_ = ExecutionPlan::build(blob_, handle_or_default(handle), options);
    });
}

Error Graph::execute(hipdnnHandle_t handle, std::unordered_map<int64_t, void*>& variant_pack,
                     void* workspace) const {
    return as_error([&] {
        if (!plan_) {
            invalid("graph '", table_.name, "': execute before build, expected a built graph");
        }
        std::vector<Binding> pack;
        pack.reserve(variant_pack.size());
        for (const auto& [uid, ptr] : variant_pack) pack.push_back({uid, ptr});
        plan_->execute(handle ? *handle : hipdnnHandle::of_thread(plan_->device()), pack,
                       workspace);
    });
}

std::vector<Verdict> Graph::explain(hipdnnHandle_t handle) {
    std::vector<Verdict> verdicts;
    for (const backend::Candidate& candidate :
         backend::examine(*preview(), handle_or_default(handle))) {
        verdicts.push_back(candidate.verdict);
    }
    return verdicts;
}

std::vector<uint8_t> Graph::serialize() {
    const std::span<const uint8_t> bytes = finalized().bytes();
    return {bytes.begin(), bytes.end()};
}

Graph Graph::deserialize(std::span<const uint8_t> bytes) {
    std::vector<uint8_t> graph_bytes(bytes.begin(), bytes.end());
    if (schema::identify(bytes) == schema::BlobKind::GRAPH_AND_PLAN) {
        const schema::ContainerBlob container = schema::read_container(bytes);
        if (!container.graph) invalid("container: holds no graph, expected one");
        graph_bytes = *container.graph;
    }
    Graph graph;
    graph.blob_ = std::make_shared<const schema::GraphBlob>(schema::GraphBlob::read(graph_bytes));
    graph.adopt(graph.blob_->graph());
    return graph;
}

plugin::ApiVersion Graph::min_required_engine_api_version() {
    return backend::required_api_version(preview()->graph());
}

uint32_t Graph::min_reader_version() {
    return backend::required_reader_version(preview()->graph());
}

}  // namespace raggeddnn
