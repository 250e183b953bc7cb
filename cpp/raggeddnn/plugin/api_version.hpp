// Which engine plugin API version a graph needs, in one place: the same function stamps
// `min_required_engine_api_version` and filters plugins.
#pragma once

#include <algorithm>
#include <charconv>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "raggeddnn/base/fnv1a.hpp"

namespace raggeddnn::plugin {

struct ApiVersion {
    uint32_t major = 1;
    uint32_t minor = 0;
    uint32_t patch = 0;
    auto operator<=>(const ApiVersion&) const = default;
};

inline std::string to_string(const ApiVersion& v) {
    return std::to_string(v.major) + "." + std::to_string(v.minor) + "." + std::to_string(v.patch);
}

// Reads "MAJOR.MINOR.PATCH"; nothing else is a version.
inline std::optional<ApiVersion> parse_api_version(std::string_view text) {
    ApiVersion v;
    const char* at = text.data();
    const char* const end = at + text.size();
    for (uint32_t* part : {&v.major, &v.minor, &v.patch}) {
        if (part != &v.major) {
            if (at == end || *at != '.') return std::nullopt;
            ++at;
        }
        const auto [next, error] = std::from_chars(at, end, *part);
        if (error != std::errc()) return std::nullopt;
        at = next;
    }
    if (at != end) return std::nullopt;
    return v;
}

inline constexpr ApiVersion K_ENGINE_PLUGIN_API_VERSION_BASELINE{1, 0, 0};
inline constexpr ApiVersion K_OVERRIDE_EXECUTE_MIN_API_VERSION{1, 1, 0};
inline constexpr ApiVersion K_PASS_BY_VALUE_MIN_API_VERSION{1, 2, 0};
inline constexpr ApiVersion K_RAGGED_TENSOR_MIN_API_VERSION{1, 3, 0};
inline constexpr ApiVersion K_TENSOR_ATTRIBUTE_ALIGNMENT_MIN_VERSION{1, 3, 0};
inline constexpr ApiVersion K_RAGGED_OFFSET_MULTIPLIER_MIN_API_VERSION{1, 4, 0};
// Stamped on graphs that use an extension of ours, so that other readers and providers refuse them.
// An engine is offered such a graph when its traits list the extension, whatever version it
// reports.
inline constexpr ApiVersion K_EXTENSION_API_VERSION{1, 1000, 0};
inline constexpr ApiVersion K_MAX_SUPPORTED_API_VERSION = K_EXTENSION_API_VERSION;

inline constexpr int64_t K_DEFAULT_ALIGNMENT = 16;
inline constexpr int64_t K_DEFAULT_RAGGED_OFFSET_MULTIPLIER = 1;

// The features of a graph that raise the version it needs.
struct GraphFeatures {
    bool is_override_shape = false;
    bool is_runtime_pass_by_value = false;
    bool is_ragged = false;
    bool has_non_default_alignment = false;
    bool has_ragged_offset_multiplier = false;
    bool uses_extension = false;
};

// The highest floor of the features in use.
inline constexpr ApiVersion compute_minimum_plugin_api_version(const GraphFeatures& f) {
    ApiVersion v = K_ENGINE_PLUGIN_API_VERSION_BASELINE;
    if (f.is_override_shape) v = std::max(v, K_OVERRIDE_EXECUTE_MIN_API_VERSION);
    if (f.is_runtime_pass_by_value) v = std::max(v, K_PASS_BY_VALUE_MIN_API_VERSION);
    if (f.is_ragged) v = std::max(v, K_RAGGED_TENSOR_MIN_API_VERSION);
    if (f.has_non_default_alignment) v = std::max(v, K_TENSOR_ATTRIBUTE_ALIGNMENT_MIN_VERSION);
    if (f.has_ragged_offset_multiplier) {
        v = std::max(v, K_RAGGED_OFFSET_MULTIPLIER_MIN_API_VERSION);
    }
    if (f.uses_extension) v = std::max(v, K_EXTENSION_API_VERSION);
    return v;
}

// hipDNN's engine id: the hash of the engine's name.
inline constexpr int64_t engine_id_of(std::string_view name) {
    return static_cast<int64_t>(fnv1a(name));
}

}  // namespace raggeddnn::plugin
