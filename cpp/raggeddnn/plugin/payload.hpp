// A plan of this SDK as bytes, and back. The provider contract of the runtime pass-by-value
// document (4.6): the payload keeps which tensors are runtime scalars (with their defaults: it
// holds the graph), it states its version, kind, engine, target and kernels, and one that cannot be
// interpreted is refused before anything in it is used.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/plugin/api_version.hpp"
#include "raggeddnn/schema/engine_payload_generated.h"
#include "raggeddnn/schema/graph_view.hpp"

namespace raggeddnn::plugin {

inline constexpr uint32_t PAYLOAD_VERSION = 2;
inline constexpr uint32_t PAYLOAD_KIND_GRAPH = 1;

// Who wrote or reads a payload.
struct PayloadOwner {
    int64_t engine_id = 0;
    std::string engine_name;
    std::string version;
    std::string target;
};

// The instruction set this code was compiled for.
inline constexpr const char* machine_architecture() {
#if defined(__x86_64__)
    return "x86_64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "other";
#endif
}

// The tensors whose buffers are host scalars.
inline std::vector<int64_t> runtime_uids(std::span<const uint8_t> graph) {
    std::vector<int64_t> uids;
    for (const schema::TensorView& t : schema::GraphView(graph.data(), graph.size()).tensors()) {
        if (t.is_runtime_pass_by_value()) uids.push_back(t.uid());
    }
    return uids;
}

// `payload` has an engine_config, a graph and a kernel_id; the rest is added.
inline std::vector<uint8_t> write_payload(const PayloadOwner& owner,
                                          schema::EnginePayloadT payload) {
    payload.version = PAYLOAD_VERSION;
    payload.kind = PAYLOAD_KIND_GRAPH;
    payload.engine_id = owner.engine_id;
    payload.engine_version = owner.version;
    payload.target = owner.target;
    payload.checksum = fnv1a(payload.graph, fnv1a(payload.engine_config));
    payload.runtime_uids = runtime_uids(payload.graph);
    flatbuffers::FlatBufferBuilder builder;
    schema::FinishEnginePayloadBuffer(builder, schema::CreateEnginePayload(builder, &payload));
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

// `owner_of(engine_id)` says who would read it, and throws for an id that is none of its engines.
// Throws INVALID_VALUE for bytes that are damaged or no payload, NOT_SUPPORTED for one that the
// engine must not run; the message says got and expected.
template <class OwnerOf>
schema::EnginePayloadT read_payload(OwnerOf&& owner_of, std::span<const uint8_t> bytes) {
    // Copied: the caller's bytes need not be aligned.
    const std::vector<uint64_t> aligned = [&] {
        std::vector<uint64_t> words((bytes.size() + 7) / 8);
        if (!bytes.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
        return words;
    }();
    const auto* data = reinterpret_cast<const uint8_t*>(aligned.data());
    flatbuffers::Verifier verifier(data, bytes.size());
    if (bytes.size() < 8 || !schema::VerifyEnginePayloadBuffer(verifier)) {
        invalid("plan payload: ", bytes.size(), " bytes are no payload of this plugin's engines");
    }
    const schema::EnginePayload& payload = *schema::GetEnginePayload(data);
    if (payload.version() != PAYLOAD_VERSION) {  // before anything else is interpreted
        fail(ErrorCode::NOT_SUPPORTED, "plan payload: its version is ", payload.version(),
             ", expected ", PAYLOAD_VERSION);
    }
    const PayloadOwner owner = owner_of(payload.engine_id());
    const auto refuse = [&](const char* what, const auto& got, const auto& expected) {
        fail(ErrorCode::NOT_SUPPORTED, owner.engine_name, ": the plan's ", what, " is ", got,
             ", expected ", expected);
    };
    const auto text = [](const flatbuffers::String* s) { return s ? s->str() : std::string(); };
    if (payload.kind() != PAYLOAD_KIND_GRAPH) {
        refuse("payload kind", payload.kind(), PAYLOAD_KIND_GRAPH);
    }
    if (text(payload.engine_version()) != owner.version) {
        refuse("engine version", text(payload.engine_version()), owner.version);
    }
    if (text(payload.target()) != owner.target) {
        refuse("target", text(payload.target()), owner.target);
    }
    schema::EnginePayloadT content;
    payload.UnPackTo(&content);
    if (fnv1a(content.graph, fnv1a(content.engine_config)) != content.checksum) {
        invalid(owner.engine_name, ": the plan's payload is damaged: its checksum does not fit");
    }
    if (content.runtime_uids != runtime_uids(content.graph)) {
        invalid(owner.engine_name,
                ": the plan's payload is damaged: its graph has other runtime scalars");
    }
    return content;
}

}  // namespace raggeddnn::plugin
