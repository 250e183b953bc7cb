#include "raggeddnn/schema/json_names.hpp"

#include <algorithm>
#include <cctype>

namespace raggeddnn::schema {

namespace {

std::string lower(std::string_view text) {
    std::string result(text);
    std::transform(result.begin(), result.end(), result.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return result;
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const int letter = std::tolower(static_cast<unsigned char>(c));
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

bool dash_before(int byte) { return byte == 4 || byte == 6 || byte == 8 || byte == 10; }

}  // namespace

std::string_view json_group(const TypeInfo& op, const FieldInfo& field, const OpNames& names) {
    if (!is_tensor_uid(op, field)) return names.parameters;
    if (!names.is_nested) return "";
    return is_output(names, field) ? "outputs" : "inputs";
}

EnumSpelling enum_spelling(std::string_view enum_name, std::string_view op) {
    if (enum_name == "ResampleMode" || enum_name == "PaddingMode") return EnumSpelling::NUMBER;
    if (enum_name == "NormFwdPhase") {
        return op == "LayernormAttributes" ? EnumSpelling::NUMBER : EnumSpelling::AS_IS;
    }
    const bool lower_case = enum_name == "DataType" || enum_name == "PointwiseMode" ||
                            enum_name == "ReductionMode" || enum_name == "MoeGroupedMatmulMode";
    return lower_case ? EnumSpelling::LOWER_CASE : EnumSpelling::AS_IS;
}

std::string enum_to_text(const EnumInfo& info, const EnumMember& member, EnumSpelling spelling) {
    // Reductions drop the suffix that keeps the names clear of C macros; pointwise modes do not.
    if (info.name == "ReductionMode" && member.name == "MIN_OP") return "min";
    if (info.name == "ReductionMode" && member.name == "MAX_OP") return "max";
    return spelling == EnumSpelling::LOWER_CASE ? lower(member.name) : member.name;
}

std::optional<int64_t> enum_from_text(const EnumInfo& info, std::string_view text,
                                      EnumSpelling spelling) {
    for (const EnumMember& member : info.members) {
        if (enum_to_text(info, member, spelling) == text) return member.value;
    }
    return std::nullopt;
}

std::string enum_texts(const EnumInfo& info, EnumSpelling spelling) {
    const auto text = [&](const EnumMember& member) {
        return '"' + enum_to_text(info, member, spelling) + '"';
    };
    if (info.members.size() > 24) {
        return text(info.members.front()) + " to " + text(info.members.back());
    }
    std::string all;
    for (const EnumMember& member : info.members) all += (all.empty() ? "" : ", ") + text(member);
    return all;
}

std::string uuid_to_text(const uint8_t* bytes) {
    constexpr char digits[] = "0123456789abcdef";
    std::string text;
    for (int i = 0; i < 16; ++i) {
        if (dash_before(i)) text += '-';
        text += digits[bytes[i] >> 4];
        text += digits[bytes[i] & 15];
    }
    return text;
}

bool uuid_from_text(std::string_view text, uint8_t* bytes) {
    if (text.size() != 36) return false;
    size_t at = 0;
    for (int i = 0; i < 16; ++i) {
        if (dash_before(i) && text[at++] != '-') return false;
        const int high = hex_digit(text[at++]);
        const int low = hex_digit(text[at++]);
        if (high < 0 || low < 0) return false;
        bytes[i] = static_cast<uint8_t>(high * 16 + low);
    }
    return true;
}

}  // namespace raggeddnn::schema
