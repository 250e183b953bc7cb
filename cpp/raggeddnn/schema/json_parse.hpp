// JSON text into values, within bounds: what a hostile text may ask for in depth, size and keys is
// limited before anything looks at the values. Internal to the schema layer.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace raggeddnn::schema {

// Values take up to forty times their text (a list of empty objects).
inline constexpr size_t K_MAX_JSON_BYTES = size_t{16} << 20;
// The deepest that is written: a list in a group of a node in the list of nodes.
inline constexpr size_t K_MAX_JSON_DEPTH = 8;
// Far beyond the largest object that is written.
inline constexpr size_t K_MAX_JSON_KEYS = 128;

// Throws INVALID_VALUE: for what is no JSON with the line and column, for what breaks a bound and
// for a key given twice with the path.
nlohmann::json parse_json(std::string_view text);

}  // namespace raggeddnn::schema
