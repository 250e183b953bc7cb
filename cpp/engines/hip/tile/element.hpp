// Floating-point elements as kernels hold them, with conversions from and to float: those of 16
// bits are bits.
#pragma once

#include <cstdint>

#include "../attention/device.hpp"

namespace raggeddnn::hip {

RAGGEDDNN_DEVICE inline float float_of_bits(uint32_t bits) {
    return __builtin_bit_cast(float, bits);
}
RAGGEDDNN_DEVICE inline uint32_t bits_of_float(float value) {
    return __builtin_bit_cast(uint32_t, value);
}

struct Float32 {
    using Stored = float;

    RAGGEDDNN_DEVICE static float to_float(float value) { return value; }
    RAGGEDDNN_DEVICE static float from_float(float value) { return value; }
};

struct Bfloat16 {
    using Stored = uint16_t;
    RAGGEDDNN_DEVICE static float to_float(uint16_t bits) {
        return float_of_bits(static_cast<uint32_t>(bits) << 16);
    }
    // To nearest, ties to even; a NaN stays one.
    RAGGEDDNN_DEVICE static uint16_t from_float(float value) {
        const uint32_t bits = bits_of_float(value);
        if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
        return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
    }
};

struct Float16 {
    using Stored = uint16_t;
#if defined(__CUDACC__)  // which has no _Float16 on the device
    RAGGEDDNN_DEVICE static float to_float(uint16_t bits) {
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
        return value;
    }
    RAGGEDDNN_DEVICE static uint16_t from_float(float value) {
        uint16_t bits;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
        return bits;
    }
#else
    RAGGEDDNN_DEVICE static float to_float(uint16_t bits) {
        return static_cast<float>(__builtin_bit_cast(_Float16, bits));
    }
    RAGGEDDNN_DEVICE static uint16_t from_float(float value) {
        return __builtin_bit_cast(uint16_t, static_cast<_Float16>(value));
    }
#endif
};

// Elements that one load or store moves.
template <int COUNT>
struct alignas(2 * COUNT) Elements {
    uint16_t e[COUNT];
};
using Chunk = Elements<8>;

// The same bits as words, which a compiler does not take apart.
struct alignas(16) ChunkWords {
    uint32_t w[4];
};

}  // namespace raggeddnn::hip
