// The members of Graph that need engines: the frontend declares them, the backend gives them.

#include "raggeddnn/backend/execution_plan.hpp"
#include "raggeddnn/backend/finalize.hpp"
#include "raggeddnn/backend/handle.hpp"
#include "raggeddnn/backend/selection.hpp"
#include "raggeddnn/graph/graph.hpp"
#include "raggeddnn/schema/blob.hpp"
#include "raggeddnn/schema/graph_view.hpp"
#include "raggeddnn/schema/json.hpp"
#include "raggeddnn/schema/uids.hpp"

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
        for (const TensorPtr& t : tensors_) {
            t->is_built_ = true;
            t->settle();  // for graphs that take the tensor or a copy of it
        }
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
    return execute(handle, variant_pack, workspace, {}, {}, {});
}

Error Graph::execute(hipdnnHandle_t handle, std::unordered_map<int64_t, void*>& variant_pack,
                     void* workspace, const std::vector<int64_t>& override_uids,
                     const std::vector<std::vector<int64_t>>& override_shapes,
                     const std::vector<std::vector<int64_t>>& override_strides) const {
    return as_error([&] {
        if (!plan_) {
            invalid("graph '", table_.name, "': execute before build, expected a built graph");
        }
        const size_t count = override_uids.size();
        if (override_shapes.size() != count || override_strides.size() != count) {
            invalid("graph '", table_.name, "': execute got ", count, " override uids, ",
                    override_shapes.size(), " shapes and ", override_strides.size(),
                    " strides, expected as many of each");
        }
        std::vector<ShapeOverride> overrides;
        for (size_t i = 0; i < count; ++i) {
            overrides.push_back({override_uids[i], override_shapes[i], override_strides[i]});
        }
        std::vector<Binding> pack;
        pack.reserve(variant_pack.size());
        for (const auto& [uid, ptr] : variant_pack) pack.push_back({uid, ptr});
        plan_->execute(handle ? *handle : hipdnnHandle::of_thread(plan_->device()), pack, workspace,
                       overrides);
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
    return received(graph_bytes);
}

Graph Graph::from_json(std::string_view text) {
    return received(schema::graph_bytes_from_json(text));
}

Graph Graph::received(std::span<const uint8_t> graph_bytes) {
    Graph graph;
    graph.blob_ = std::make_shared<const schema::GraphBlob>(schema::GraphBlob::read(graph_bytes));
    const std::span<const uint8_t> bytes = graph.blob_->bytes();
    schema::check_extents_are_given(schema::GraphView(bytes.data(), bytes.size()));
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
