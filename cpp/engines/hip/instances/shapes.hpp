// Sizes of the forward pass's tiles by architecture and width, with the reason for them.
#pragma once

#include "../tile/arch.hpp"
#include "pass_sizes.hpp"

namespace raggeddnn::hip {

template <class Arch, int WIDTH>
struct ForwardShape;

#define RAGGEDDNN_FORWARD_SLOTS(ARCH, WIDTH_, ROWS, WAVE_ROWS_, KEYS, SLOTS_, WHY)          \
    template <>                                                                             \
    struct ForwardShape<ARCH, WIDTH_> : PassSizes<WIDTH_, ROWS, WAVE_ROWS_, KEYS, SLOTS_> { \
        static constexpr const char* REASON = WHY;                                          \
    };
#define RAGGEDDNN_FORWARD_SHAPE(ARCH, WIDTH_, ROWS, WAVE_ROWS_, KEYS, WHY) \
    RAGGEDDNN_FORWARD_SLOTS(ARCH, WIDTH_, ROWS, WAVE_ROWS_, KEYS, 2, WHY)

#if defined(RAGGEDDNN_EMULATED_WAVE) && defined(RAGGEDDNN_EMULATE_NVIDIA) || defined(__CUDACC__)
RAGGEDDNN_FORWARD_SHAPE(Nvidia, 64, 128, 32, 64,
                        "32 rows a warp: each key read from shared memory serves two products")
RAGGEDDNN_FORWARD_SHAPE(Nvidia, 96, 64, 16, 64,
                        "16 rows a warp: two blocks a multiprocessor without spills")
RAGGEDDNN_FORWARD_SHAPE(Nvidia, 128, 64, 16, 64,
                        "16 rows a warp: two blocks a multiprocessor without spills")
RAGGEDDNN_FORWARD_SHAPE(
    Nvidia, 192, 64, 16, 32,
    "16 rows a warp and half a block of keys: more fit neither registers nor 99 KB")
RAGGEDDNN_FORWARD_SHAPE(
    Nvidia, 256, 64, 16, 32,
    "16 rows a warp and half a block of keys: more fit neither registers nor 99 KB")
RAGGEDDNN_FORWARD_SLOTS(Hopper, 64, 64, 16, 64, 1,
                        "one group of four warps: three blocks hide each other's exponentials")
RAGGEDDNN_FORWARD_SLOTS(Hopper, 128, 64, 16, 64, 1,
                        "one group of four warps: three blocks hide each other's exponentials")
RAGGEDDNN_FORWARD_SLOTS(Hopper, 192, 128, 16, 64, 1,
                        "two groups of four warps: registers hold no more rows")
RAGGEDDNN_FORWARD_SLOTS(Hopper, 256, 128, 16, 64, 1,
                        "two groups of four warps: registers hold no more rows")
#else
RAGGEDDNN_FORWARD_SHAPE(Cdna, 64, 128, 32, 64,
                        "32 rows a wave: each key read from LDS serves two products")
RAGGEDDNN_FORWARD_SHAPE(Cdna, 96, 128, 32, 64,
                        "32 rows a wave: a key serves two products; values take the queries' LDS")
RAGGEDDNN_FORWARD_SHAPE(Cdna, 128, 128, 32, 64,
                        "32 rows a wave: a key serves two products; values take the queries' LDS")
RAGGEDDNN_FORWARD_SHAPE(Cdna, 192, 64, 16, 32, "keys and values of a block fit in LDS")
RAGGEDDNN_FORWARD_SHAPE(Cdna, 256, 64, 16, 16, "keys and values of a block fit in LDS")
RAGGEDDNN_FORWARD_SHAPE(Rdna3, 64, 128, 16, 64, "8 waves share what a block of keys costs")
RAGGEDDNN_FORWARD_SHAPE(Rdna3, 96, 128, 16, 32, "half a block of keys: 256 registers")
RAGGEDDNN_FORWARD_SHAPE(Rdna3, 128, 128, 16, 32, "half a block of keys: 256 registers")
RAGGEDDNN_FORWARD_SHAPE(Rdna3, 192, 64, 16, 16, "LDS holds 64 rows of queries beside the keys")
RAGGEDDNN_FORWARD_SHAPE(Rdna3, 256, 64, 16, 16, "LDS holds 64 rows of queries beside the keys")
RAGGEDDNN_FORWARD_SHAPE(Rdna4, 64, 128, 16, 32, "8 waves share what a block of keys costs")
RAGGEDDNN_FORWARD_SHAPE(Rdna4, 96, 128, 16, 32, "half a block of keys: 256 registers")
RAGGEDDNN_FORWARD_SHAPE(Rdna4, 128, 128, 16, 32, "half a block of keys: 256 registers")
RAGGEDDNN_FORWARD_SHAPE(Rdna4, 192, 64, 16, 16, "LDS holds 64 rows of queries beside the keys")
RAGGEDDNN_FORWARD_SHAPE(Rdna4, 256, 64, 16, 16, "LDS holds 64 rows of queries beside the keys")
#endif

#undef RAGGEDDNN_FORWARD_SHAPE
#undef RAGGEDDNN_FORWARD_SLOTS

}  // namespace raggeddnn::hip
