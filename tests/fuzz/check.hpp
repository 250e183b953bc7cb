// What all targets assert: whatever the bytes are, only raggeddnn::Exception leaves a reader, and
// what was once accepted stays the same through unpacking, packing and JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/schema/blob.hpp"
#include "raggeddnn/schema/json.hpp"
#include "raggeddnn/schema/uids.hpp"

namespace fuzz {

inline void check_same(const std::string& got, const std::string& expected, const char* after) {
    if (got == expected) return;
    std::fprintf(stderr, "after %s:\n%s\nexpected:\n%s\n", after, got.c_str(), expected.c_str());
    std::abort();
}

template <class Body>
void refuse_or_run(const Body& body) {
    try {
        body();
    } catch (const raggeddnn::Exception& e) {
        // A refusal is data of ours, and a fault of ours is none.
        if (e.code() != raggeddnn::ErrorCode::INTERNAL_ERROR && e.what()[0] != '\0') return;
        std::fprintf(stderr, "refused with: %s\n", e.what());
        std::abort();
    }
}

template <class Root>
std::vector<uint8_t> packed(const typename Root::NativeTableType& tree) {
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(Root::Pack(builder, &tree));
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

inline void round_trip_graph(std::span<const uint8_t> bytes) {
    using namespace raggeddnn::schema;
    const GraphBlob blob = GraphBlob::read(bytes);
    if (blob.graph().nodes() != nullptr) {
        for (const Node* node : *blob.graph().nodes()) tensor_uses(*node);
    }
    const std::string json = graph_to_json(blob.graph());

    const std::unique_ptr<GraphT> tree(blob.graph().UnPack());
    const GraphBlob repacked = GraphBlob::read(packed<Graph>(*tree));
    check_same(graph_to_json(repacked.graph()), json, "unpacking and packing");

    const GraphBlob from_json = GraphBlob::read(graph_bytes_from_json(json));
    check_same(graph_to_json(from_json.graph()), json, "JSON");
}

inline void round_trip_plan(std::span<const uint8_t> bytes) {
    using namespace raggeddnn::schema;
    const PlanBlob blob = PlanBlob::read(bytes);
    const std::string json = plan_to_json(blob.plan());

    const std::unique_ptr<SerializedExecutionPlanT> tree(blob.plan().UnPack());
    const PlanBlob repacked = PlanBlob::read(packed<SerializedExecutionPlan>(*tree));
    check_same(plan_to_json(repacked.plan()), json, "unpacking and packing");

    const PlanBlob from_json = PlanBlob::read(plan_bytes_from_json(json));
    check_same(plan_to_json(from_json.plan()), json, "JSON");
}

}  // namespace fuzz
