// 64-bit FNV-1a: hipDNN's engine ids, and checksums against damage (not against intent).
#pragma once

#include <cstdint>

namespace raggeddnn {

inline constexpr uint64_t FNV1A_START = 0xcbf29ce484222325ULL;

// The hash of bytes; `hash` continues an earlier one.
template <class Bytes>
constexpr uint64_t fnv1a(const Bytes& bytes, uint64_t hash = FNV1A_START) {
    for (const auto byte : bytes) {
        hash ^= static_cast<unsigned char>(byte);
        hash *= 0x100000001b3ULL;
    }
    return hash;
}

}  // namespace raggeddnn
