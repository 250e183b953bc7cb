#include "raggeddnn/backend/finalize.hpp"

#include <algorithm>
#include <memory>
#include <random>

namespace raggeddnn::backend {

namespace {

template <class Predicate>
bool any_tensor(const schema::Graph& graph, Predicate predicate) {
    return graph.tensors() &&
           std::any_of(graph.tensors()->begin(), graph.tensors()->end(), predicate);
}

bool uses_dstats(const schema::Graph& graph) {
    if (!graph.nodes()) return false;
    return std::any_of(graph.nodes()->begin(), graph.nodes()->end(), [](const schema::Node* node) {
        const schema::SdpaBackwardAttributes* sdpa = node->attributes_as_SdpaBackwardAttributes();
        return sdpa && sdpa->dstats_tensor_uid().has_value();
    });
}

// Random, RFC 4122 version 4.
schema::Uuid mint_id() {
    std::random_device source;
    uint8_t bytes[16];
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(source());
    bytes[6] = static_cast<uint8_t>((bytes[6] & 0x0f) | 0x40);
    bytes[8] = static_cast<uint8_t>((bytes[8] & 0x3f) | 0x80);
    return schema::Uuid(flatbuffers::span<const uint8_t, 16>(bytes));
}

std::vector<uint8_t> pack(const schema::GraphT& graph) {
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(schema::CreateGraph(builder, &graph));
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

}  // namespace

bool read_is_runtime_pass_by_value_enabled(const schema::Graph& graph) {
    return any_tensor(
        graph, [](const schema::TensorAttributes* t) { return t->is_runtime_pass_by_value(); });
}

plugin::GraphFeatures read_graph_features(const schema::Graph& graph) {
    plugin::GraphFeatures features;
    features.is_override_shape = graph.is_override_shape_enabled();
    features.is_runtime_pass_by_value = read_is_runtime_pass_by_value_enabled(graph);
    features.is_ragged = graph.is_ragged_tensor_enabled() ||
                         any_tensor(graph, [](const schema::TensorAttributes* t) {
                             return t->ragged_offset_tensor_uid().has_value();
                         });
    features.has_non_default_alignment = any_tensor(graph, [](const schema::TensorAttributes* t) {
        return t->alignment() != plugin::K_DEFAULT_ALIGNMENT;
    });
    features.has_ragged_offset_multiplier =
        any_tensor(graph, [](const schema::TensorAttributes* t) {
            return t->ragged_offset_multiplier() != plugin::K_DEFAULT_RAGGED_OFFSET_MULTIPLIER;
        });
    features.uses_extension = !extensions_used(graph).empty();
    return features;
}

std::vector<std::string> extensions_used(const schema::Graph& graph) {
    std::vector<std::string> names;
    if (uses_dstats(graph)) names.emplace_back("dstats");
    return names;
}

plugin::ApiVersion required_api_version(const schema::Graph& graph) {
    plugin::ApiVersion version =
        plugin::compute_minimum_plugin_api_version(read_graph_features(graph));
    if (const schema::EngineApiVersion* stamp = graph.min_required_engine_api_version()) {
        version = std::max(version, {stamp->major(), stamp->minor(), stamp->patch()});
    }
    return version;
}

uint32_t required_reader_version(const schema::Graph& graph) {
    uint32_t version = graph.min_reader_version();
    if (read_is_runtime_pass_by_value_enabled(graph)) version = std::max(version, 1u);
    if (uses_dstats(graph) || graph.is_runtime_default_override_enabled()) {
        version = std::max(version, 2u);
    }
    return version;
}

std::vector<uint8_t> finalize(schema::GraphT graph) {
    const std::vector<uint8_t> unstamped = pack(graph);
    const schema::Graph& view = *schema::GetGraph(unstamped.data());
    const plugin::ApiVersion version = required_api_version(view);
    graph.min_required_engine_api_version =
        std::make_unique<schema::EngineApiVersion>(version.major, version.minor, version.patch);
    graph.min_reader_version = required_reader_version(view);
    graph.is_ragged_tensor_enabled = read_graph_features(view).is_ragged;
    if (!graph.id) graph.id = std::make_unique<schema::Uuid>(mint_id());
    return pack(graph);
}

}  // namespace raggeddnn::backend
