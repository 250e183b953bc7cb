// IEEE binary16 and bfloat16 as storage types: 16 raw bits that convert to float exactly and from
// float by rounding to nearest, ties to even. Portable; fast enough for a reference.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace raggeddnn {

inline float half_bits_to_float(uint16_t h) {
    const uint32_t sign = uint32_t(h & 0x8000u) << 16;
    const uint32_t exponent = (h >> 10) & 0x1fu;
    const uint32_t mantissa = h & 0x3ffu;
    if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
    if (exponent != 0)
        return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // subnormal or zero: exact
    return sign ? -magnitude : magnitude;
}

// From double directly: rounding through float first could round twice.
inline uint16_t double_to_half_bits(double value) {
    const uint64_t bits = std::bit_cast<uint64_t>(value);
    const auto sign = static_cast<uint16_t>((bits >> 48) & 0x8000u);
    const double magnitude = std::fabs(value);
    if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00u);
    if (magnitude >= 65520.0) return static_cast<uint16_t>(sign | 0x7c00u);
    if (magnitude < 0x1p-14) {  // subnormals: a whole number of 2^-24
        return static_cast<uint16_t>(sign |
                                     static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24)));
    }
    int exponent = 0;
    const double fraction = std::frexp(magnitude, &exponent);                       // [0.5, 1)
    const auto rounded = static_cast<uint32_t>(std::nearbyint(fraction * 2048.0));  // 1024..2048
    // 2048 carries into the exponent by plain addition.
    return static_cast<uint16_t>(sign + ((exponent + 13) << 10) + rounded);
}

inline float bfloat16_bits_to_float(uint16_t b) { return std::bit_cast<float>(uint32_t(b) << 16); }

inline uint16_t double_to_bfloat16_bits(double value) {
    if (std::isnan(value)) {
        return static_cast<uint16_t>(((std::bit_cast<uint64_t>(value) >> 48) & 0x8000u) | 0x7fc0u);
    }
    // Round to odd in float keeps the second rounding right.
    float f = static_cast<float>(value);
    uint32_t bits = std::bit_cast<uint32_t>(f);
    if (std::isfinite(value) && std::isfinite(f) && static_cast<double>(f) != value &&
        !(bits & 1u)) {
        const bool too_far = std::fabs(static_cast<double>(f)) > std::fabs(value);
        bits = too_far ? bits - 1u : bits + 1u;
    }
    if (std::isfinite(value) && std::isinf(f)) bits = (bits & 0x80000000u) | 0x7f7fffffu;
    if ((bits & 0x7fffffffu) >= 0x7f800000u) return static_cast<uint16_t>(bits >> 16);
    bits += 0x7fffu + ((bits >> 16) & 1u);
    return static_cast<uint16_t>(bits >> 16);
}

// What a tensor's memory holds for HALF and BFLOAT16.
struct half {
    uint16_t bits = 0;
    half() = default;
    explicit half(double value) : bits(double_to_half_bits(value)) {}
    explicit operator float() const { return half_bits_to_float(bits); }
    explicit operator double() const { return half_bits_to_float(bits); }
    bool operator==(const half&) const = default;
};

struct bfloat16 {
    uint16_t bits = 0;
    bfloat16() = default;
    explicit bfloat16(double value) : bits(double_to_bfloat16_bits(value)) {}
    explicit operator float() const { return bfloat16_bits_to_float(bits); }
    explicit operator double() const { return bfloat16_bits_to_float(bits); }
    bool operator==(const bfloat16&) const = default;
};

}  // namespace raggeddnn
