#include "raggeddnn/schema/blob.hpp"

#include <algorithm>
#include <cstring>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/base/fnv1a.hpp"
#include "raggeddnn/schema/graph_and_plan_generated.h"
#include "raggeddnn/schema/reflect.hpp"
#include "raggeddnn/schema/walk.hpp"

namespace raggeddnn::schema {

namespace {

// A root offset, and the smallest table with its vtable.
constexpr size_t K_MIN_BYTES = 12;
constexpr size_t K_MAX_BYTES = (size_t{1} << 31) - 16;

void check_size(std::span<const uint8_t> bytes, const char* what) {
    if (bytes.size() < K_MIN_BYTES || bytes.size() > K_MAX_BYTES) {
        invalid("a serialized ", what, " has ", bytes.size(), " bytes, expected ", K_MIN_BYTES,
                " to ", K_MAX_BYTES);
    }
}

// Every table takes four bytes of its own, so honest buffers stay below this count however many
// tensors they hold, and a buffer that leads to one table again and again does not.
template <class Root>
bool verifies(std::span<const uint8_t> bytes, const char* identifier = nullptr) {
    flatbuffers::Verifier verifier(bytes.data(), bytes.size(), /*max_depth=*/32,
                                   static_cast<flatbuffers::uoffset_t>(bytes.size() / 4 + 1));
    return verifier.VerifyBuffer<Root>(identifier);
}

template <class Root>
void verify(std::span<const uint8_t> bytes, const char* what, const char* identifier = nullptr) {
    if (!verifies<Root>(bytes, identifier)) {
        invalid("the ", bytes.size(), " bytes are no serialized ", what,
                ": offsets lead outside, or required fields are missing");
    }
}

// Refuses what a newer library must read, before anything else in the graph is looked at.
void guard(const Graph& graph) {
    if (graph.min_reader_version() > K_GRAPH_READER_VERSION) {
        fail(ErrorCode::NOT_SUPPORTED, "Graph.min_reader_version is ", graph.min_reader_version(),
             ", expected at most ", K_GRAPH_READER_VERSION,
             ": the graph uses something this reader does not know");
    }
    const EngineApiVersion* stamp = graph.min_required_engine_api_version();
    if (stamp == nullptr) return;
    const bool known =
        stamp->minor() < K_NEWEST_API_MINOR ||
        ((stamp->minor() == K_NEWEST_API_MINOR || stamp->minor() == K_EXTENSION_API_MINOR) &&
         stamp->patch() == 0);
    if (stamp->major() != K_NEWEST_API_MAJOR || !known) {
        fail(ErrorCode::NOT_SUPPORTED, "Graph.min_required_engine_api_version is ", stamp->major(),
             ".", stamp->minor(), ".", stamp->patch(), ", expected at most ", K_NEWEST_API_MAJOR,
             ".", K_NEWEST_API_MINOR, ".0, or ", K_NEWEST_API_MAJOR, ".", K_EXTENSION_API_MINOR,
             ".0 for an extension of this library");
    }
}

template <class T>
bool holds_any(const flatbuffers::Vector<T>* vector) {
    return vector != nullptr && vector->size() != 0;
}

std::vector<uint8_t> copy_of(const flatbuffers::Vector<uint8_t>& bytes) {
    return {bytes.begin(), bytes.end()};
}

}  // namespace

const char* to_string(BlobKind kind) {
    switch (kind) {
        case BlobKind::GRAPH: return "graph";
        case BlobKind::EXECUTION_PLAN: return "execution plan";
        case BlobKind::GRAPH_AND_PLAN: return "graph and plan";
    }
    return "unknown";
}

AlignedBytes::AlignedBytes(std::span<const uint8_t> bytes)
    : chunks_((bytes.size() + sizeof(Chunk) - 1) / sizeof(Chunk)), size_(bytes.size()) {
    if (!bytes.empty()) std::memcpy(chunks_.data(), bytes.data(), bytes.size());
}

GraphBlob GraphBlob::read(std::span<const uint8_t> bytes) {
    check_size(bytes, "graph");
    GraphBlob blob(bytes);
    verify<Graph>(blob.bytes(), "graph");
    guard(blob.graph());
    blob.unknown_slots_ = walk(blob.bytes(), Reflection::graph().type("Graph"));
    return blob;
}

PlanBlob PlanBlob::read(std::span<const uint8_t> bytes) {
    check_size(bytes, "execution plan");
    PlanBlob blob(bytes);
    verify<SerializedExecutionPlan>(blob.bytes(), "execution plan");
    const TypeInfo& root = Reflection::plan().type("SerializedExecutionPlan");
    blob.unknown_slots_ = walk(blob.bytes(), root);
    const auto* uids = blob.plan().tensor_uids();
    const auto* alignments = blob.plan().tensor_alignments();
    const size_t uid_count = uids != nullptr ? uids->size() : 0;
    if (alignments != nullptr && alignments->size() != 0 && alignments->size() != uid_count) {
        invalid("SerializedExecutionPlan.tensor_alignments has ", alignments->size(),
                " entries, expected one for each of ", uid_count, " tensor_uids");
    }
    return blob;
}

EngineConfigBlob EngineConfigBlob::read(std::span<const uint8_t> bytes) {
    check_size(bytes, "engine config");
    EngineConfigBlob blob(bytes);
    verify<EngineConfig>(blob.bytes(), "engine config");
    blob.unknown_slots_ = walk(blob.bytes(), Reflection::engine().type("EngineConfig"));
    return blob;
}

EngineDetailsBlob EngineDetailsBlob::read(std::span<const uint8_t> bytes) {
    check_size(bytes, "engine details");
    EngineDetailsBlob blob(bytes);
    verify<EngineDetails>(blob.bytes(), "engine details");
    blob.unknown_slots_ = walk(blob.bytes(), Reflection::engine().type("EngineDetails"));
    return blob;
}

namespace {

// Never 0, which says that there is none.
uint64_t checksum_of(std::span<const uint8_t> graph, std::span<const uint8_t> plan) {
    return std::max<uint64_t>(fnv1a(plan, fnv1a(graph)), 1);
}

}  // namespace

ContainerBlob read_container(std::span<const uint8_t> bytes) {
    check_size(bytes, "graph and plan");
    const AlignedBytes copy(bytes);
    verify<SerializedGraphAndPlan>(copy.view(), "graph and plan",
                                   SerializedGraphAndPlanIdentifier());
    walk(copy.view(), Reflection::container().type("SerializedGraphAndPlan"));
    const auto& root = *flatbuffers::GetRoot<SerializedGraphAndPlan>(copy.view().data());
    ContainerBlob blob;
    if (holds_any(root.graph_blob())) {
        blob.graph = copy_of(*root.graph_blob());
    }
    if (holds_any(root.plan_blob())) {
        blob.plan = copy_of(*root.plan_blob());
    }
    const std::span<const uint8_t> none;
    const uint64_t computed = checksum_of(blob.graph ? std::span<const uint8_t>(*blob.graph) : none,
                                          blob.plan ? std::span<const uint8_t>(*blob.plan) : none);
    if (root.checksum() != 0 && root.checksum() != computed) {
        invalid("container: it is damaged: its graph and plan have the checksum ", computed,
                ", expected ", root.checksum());
    }
    blob.is_checked = root.checksum() != 0;
    return blob;
}

std::vector<uint8_t> write_container(std::span<const uint8_t> graph,
                                     std::span<const uint8_t> plan) {
    flatbuffers::FlatBufferBuilder builder(graph.size() + plan.size() + 64);
    flatbuffers::Offset<flatbuffers::Vector<uint8_t>> graph_bytes = 0;
    flatbuffers::Offset<flatbuffers::Vector<uint8_t>> plan_bytes = 0;
    if (!plan.empty()) plan_bytes = builder.CreateVector(plan.data(), plan.size());
    if (!graph.empty()) graph_bytes = builder.CreateVector(graph.data(), graph.size());
    FinishSerializedGraphAndPlanBuffer(
        builder,
        CreateSerializedGraphAndPlan(builder, graph_bytes, plan_bytes, checksum_of(graph, plan)));
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

BlobKind identify(std::span<const uint8_t> bytes) {
    check_size(bytes, "graph or plan");
    const AlignedBytes copy(bytes);
    const uint8_t* data = copy.view().data();
    if (flatbuffers::BufferHasIdentifier(data, SerializedGraphAndPlanIdentifier())) {
        return BlobKind::GRAPH_AND_PLAN;
    }
    const bool is_graph = verifies<Graph>(copy.view());
    if (is_graph) {
        const Graph& graph = *GetGraph(data);
        if (holds_any(graph.tensors()) || holds_any(graph.nodes())) return BlobKind::GRAPH;
    }
    if (verifies<SerializedExecutionPlan>(copy.view())) {
        const auto& plan = *flatbuffers::GetRoot<SerializedExecutionPlan>(data);
        if (plan.engine_id() != 0 || holds_any(plan.tensor_uids())) return BlobKind::EXECUTION_PLAN;
    }
    if (is_graph) return BlobKind::GRAPH;
    invalid("the ", bytes.size(), " bytes are no serialized graph, execution plan, or both");
}

}  // namespace raggeddnn::schema
