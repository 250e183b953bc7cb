#include "raggeddnn/schema/text.hpp"

#include <cstdint>

namespace raggeddnn::schema {

namespace {

// The bytes of the character that `text` starts with; 0 if that is no character.
size_t character_size(std::string_view text) {
    const auto at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
    const uint8_t first = at(0);
    if (first < 0x80) return 1;
    const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
    for (size_t i = 1; i < size; ++i) {
        if ((at(i) & 0xc0) != 0x80) return 0;
    }
    // Longer than needed, a half of a surrogate pair, or beyond U+10FFFF.
    if ((first == 0xe0 && at(1) < 0xa0) || (first == 0xed && at(1) > 0x9f)) return 0;
    if ((first == 0xf0 && at(1) < 0x90) || (first == 0xf4 && at(1) > 0x8f)) return 0;
    return size;
}

}  // namespace

std::string printable(std::string_view text, size_t max_bytes) {
    std::string shown;
    while (!text.empty()) {
        const size_t size = character_size(text);
        if (shown.size() + size > max_bytes) return shown + "...";
        const bool is_control = static_cast<uint8_t>(text[0]) < 0x20 || text[0] == 0x7f;
        if (size == 0 || is_control) {
            shown += '?';
        } else {
            shown += text.substr(0, size);
        }
        text.remove_prefix(size == 0 ? 1 : size);
    }
    return shown;
}

}  // namespace raggeddnn::schema
