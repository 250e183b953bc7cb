// The second look at received bytes, after FlatBuffers' own verifier.
//
// The verifier proves that every access stays inside the buffer. It does not prove that the
// content means anything, nor that unpacking it is affordable: offsets may lead many times to the
// same bytes (224 KB that unpack to a gigabyte), enums and union tags may be out of range, a tag
// may lack its value, and 64-bit elements may lie where no 64-bit load may go. One pass over the
// tables settles all of these before anything is unpacked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "raggeddnn/schema/reflect.hpp"

namespace raggeddnn::schema {

// `buffer` has passed the verifier for `root` and starts at a multiple of 16 bytes. Throws
// INVALID_VALUE with the path to the field, what was got and what was expected.
//
// Returns the slots that hold something and that this version does not know, each with its owner:
// "TensorAttributes slot 12 of tensor 'q'". At most K_MAX_UNKNOWN_SLOTS are listed.
std::vector<std::string> walk(std::span<const uint8_t> buffer, const TypeInfo& root);

inline constexpr size_t K_MAX_UNKNOWN_SLOTS = 64;

}  // namespace raggeddnn::schema
