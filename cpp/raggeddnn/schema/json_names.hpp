// How things look in hipDNN's JSON: where an op's fields go, enum spellings, and the text of a
// UUID. Kept apart from the writer because the reader needs the same, backwards.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "raggeddnn/schema/op_names.hpp"
#include "raggeddnn/schema/reflect.hpp"

namespace raggeddnn::schema {

// The key of the node under which a field of its op goes; "": into the node itself.
std::string_view json_group(const TypeInfo& op, const FieldInfo& field, const OpNames& names);

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

// All texts of an enum, or the first and last of a long one, for messages.
std::string enum_texts(const EnumInfo& info, EnumSpelling spelling);

std::string uuid_to_text(const uint8_t* bytes);  // 8-4-4-4-12 hexadecimal digits
bool uuid_from_text(std::string_view text, uint8_t* bytes);

}  // namespace raggeddnn::schema
