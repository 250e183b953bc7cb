// How single values look in hipDNN's JSON: enum spellings and the text of a UUID. Kept apart from
// the writer because a reader needs the same table, backwards.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "raggeddnn/schema/reflect.hpp"

namespace raggeddnn::schema {

enum class EnumSpelling {
    LOWER_CASE,  // "bfloat16"
    AS_IS,       // "TOP_LEFT"
    NUMBER,      // 2
};

// `op` is the name of the table that holds the field: two ops spell the same enum differently.
EnumSpelling enum_spelling(std::string_view enum_name, std::string_view op);

// The text of one member, for the spellings that are text.
std::string enum_to_text(const EnumInfo& info, const EnumMember& member, EnumSpelling spelling);

// The member that is written so; empty if there is none.
std::optional<int64_t> enum_from_text(const EnumInfo& info, std::string_view text,
                                      EnumSpelling spelling);

std::string uuid_to_text(const uint8_t* bytes);  // 8-4-4-4-12 hexadecimal digits
bool uuid_from_text(std::string_view text, uint8_t* bytes);

}  // namespace raggeddnn::schema
