// The one heuristic policy, under the names by which hipDNN's callers ask for theirs.
#pragma once

#include <cstdint>
#include <string_view>

namespace raggeddnn::c_api {

constexpr int64_t policy_id(std::string_view name) {  // 64-bit FNV-1a, as of engines
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return static_cast<int64_t>(hash);
}

inline constexpr const char* POLICY_NAME = "SelectionHeuristic::StaticOrdering";
inline constexpr int64_t POLICY_ID = policy_id(POLICY_NAME);
// hipDNN's first default policy, which defers to the next one where no configuration is given.
inline constexpr int64_t CONFIG_POLICY_ID = policy_id("SelectionHeuristic::Config");

}  // namespace raggeddnn::c_api
