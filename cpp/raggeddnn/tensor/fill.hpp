// Values that tensors are filled with: reproducible random ones, and the sentinels that mark
// elements which nothing has written.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <type_traits>

#include "raggeddnn/tensor/element_type.hpp"

namespace raggeddnn {

// A value that a computation does not produce, by data type.
struct SentinelInfo {
    DataType type;
    uint64_t bits;         // as in memory, the lowest bits of the number
    bool is_unproducible;  // else every value of the type is a plausible result
    const char* reason;
};

// Arithmetic makes the default quiet NaN only, never one with these payloads: a NaN that a kernel
// computed (log(0) - log(0) of a fully masked row) differs from the sentinel in its bits.
inline constexpr SentinelInfo SENTINELS[] = {
    {DataType::FLOAT, 0x7fda5a5aULL, true, "a quiet NaN whose payload no operation makes"},
    {DataType::DOUBLE, 0x7ffda5a55a5a5a5aULL, true, "a quiet NaN whose payload no operation makes"},
    {DataType::HALF, 0x7ea5ULL, true, "a quiet NaN whose payload no operation makes"},
    {DataType::BFLOAT16, 0x7fdaULL, true, "a quiet NaN whose payload no operation makes"},
    {DataType::INT32, 0xa5a5a5a5ULL, false, "a magic number, far from counts and offsets"},
    {DataType::INT64, 0xa5a5a5a5a5a5a5a5ULL, false, "a magic number, far from counts and offsets"},
    {DataType::INT8, 0xa5ULL, false, "a magic number among 256 values"},
    {DataType::UINT8, 0xa5ULL, false, "a magic number among 256 values"},
    {DataType::BOOLEAN, 0x01ULL, false, "true: the type has two values"},
    {DataType::FP8_E4M3, 0x7fULL, false, "the NaN, which overflow produces as well"},
    {DataType::FP8_E5M2, 0x7dULL, true, "a NaN other than the default one"},
    {DataType::FP8_E8M0, 0xffULL, false, "the NaN, the only one"},
    {DataType::FP8_E4M3_FNUZ, 0x80ULL, false, "the NaN, the only one"},
    {DataType::FP8_E5M2_FNUZ, 0x80ULL, false, "the NaN, the only one"},
};

// Nothing for types below a byte.
inline constexpr std::optional<SentinelInfo> sentinel_info(DataType type) {
    for (const SentinelInfo& row : SENTINELS) {
        if (row.type == type) return row;
    }
    return std::nullopt;
}

template <ElementType T>
T sentinel_value() {
    constexpr uint64_t bits = sentinel_info(DATA_TYPE_OF<T>)->bits;
    if constexpr (std::is_same_v<T, bool>) {
        return bits != 0;
    } else if constexpr (sizeof(T) == 1) {
        return std::bit_cast<T>(static_cast<uint8_t>(bits));
    } else if constexpr (sizeof(T) == 2) {
        return std::bit_cast<T>(static_cast<uint16_t>(bits));
    } else if constexpr (sizeof(T) == 4) {
        return std::bit_cast<T>(static_cast<uint32_t>(bits));
    } else {
        return std::bit_cast<T>(bits);
    }
}

// Uniform values of T: reals over [low, high) (rounded to T, so that high may occur), integers over
// [low, high], booleans false and true. The same on every platform.
template <ElementType T>
class RandomValues {
public:
    RandomValues(double low, double high, uint64_t seed) : low_(low), high_(high), bits_(seed) {
        if (!std::isfinite(low) || !std::isfinite(high) || low > high) {
            invalid("[tensor] random values got the range ", low, " to ", high,
                    ", expected two finite numbers in order");
        }
        if constexpr (std::is_integral_v<T>) {
            low_ = std::ceil(low);
            high_ = std::floor(high);
            // 2^63 as a double is beyond int64_t, hence the strict comparison with max + 1.
            const auto least = static_cast<double>(std::numeric_limits<T>::min());
            const double beyond = std::ldexp(1.0, std::numeric_limits<T>::digits);
            if (low_ < least || high_ >= beyond || low_ > high_) {
                invalid("[tensor] random values got the range ", low, " to ", high,
                        ", expected integers of ", to_string(DATA_TYPE_OF<T>));
            }
        }
    }

    T next() {
        if constexpr (std::is_same_v<T, bool>) {
            return low_ == high_ ? low_ != 0 : (bits_() >> 63) != 0;
        } else if constexpr (std::is_integral_v<T>) {
            const auto low = static_cast<int64_t>(low_);
            const uint64_t choices =
                static_cast<uint64_t>(static_cast<int64_t>(high_)) - static_cast<uint64_t>(low) + 1;
            const uint64_t drawn = choices == 0 ? bits_() : bits_() % choices;
            return static_cast<T>(static_cast<int64_t>(static_cast<uint64_t>(low) + drawn));
        } else {
            const double unit = static_cast<double>(bits_() >> 11) * 0x1p-53;
            return static_cast<T>(low_ + unit * (high_ - low_));
        }
    }

private:
    double low_;
    double high_;
    std::mt19937_64 bits_;
};

}  // namespace raggeddnn
