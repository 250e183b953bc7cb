// Sizes of the backward passes' tiles by architecture and width, with the reason for them.
#pragma once

#include "../tile/arch.hpp"
#include "pass_sizes.hpp"

namespace raggeddnn::hip {

enum class Gradients { OF_KEYS, OF_VALUES, OF_BOTH };

template <class Sizes, Gradients GRADIENTS = Gradients::OF_BOTH>
struct KeySizes : Sizes {
    static constexpr bool HAS_KEYS = GRADIENTS != Gradients::OF_VALUES;
    static constexpr bool HAS_VALUES = GRADIENTS != Gradients::OF_KEYS;
};

// Queries: of the pass over tiles of queries; Keys: of that over tiles of keys; Values: of the one
// for dV alone, where dK and dV have a pass each.
template <class Arch, int WIDTH>
struct BackwardShape;

#define RAGGEDDNN_BACKWARD_SHAPE(ARCH, WIDTH_, QUERIES, KEYS, WHY) \
    template <>                                                    \
    struct BackwardShape<ARCH, WIDTH_> {                           \
        using Queries = PassSizes<WIDTH_, QUERIES>;                \
        using Keys = KeySizes<PassSizes<WIDTH_, KEYS>>;            \
        using Values = void;                                       \
        static constexpr const char* REASON = WHY;                 \
    };
#define RAGGEDDNN_SPLIT_BACKWARD_SHAPE(ARCH, WIDTH_, QUERIES, KEYS, WHY)        \
    template <>                                                                 \
    struct BackwardShape<ARCH, WIDTH_> {                                        \
        using Queries = PassSizes<WIDTH_, QUERIES>;                             \
        using Keys = KeySizes<PassSizes<WIDTH_, KEYS>, Gradients::OF_KEYS>;     \
        using Values = KeySizes<PassSizes<WIDTH_, KEYS>, Gradients::OF_VALUES>; \
        static constexpr const char* REASON = WHY;                              \
    };
#define RAGGEDDNN_SIZES(...) __VA_ARGS__

#if defined(RAGGEDDNN_EMULATED_WAVE) && defined(RAGGEDDNN_EMULATE_NVIDIA) || defined(__CUDACC__)
RAGGEDDNN_BACKWARD_SHAPE(Nvidia, 64, RAGGEDDNN_SIZES(64, 16, 64, 2), RAGGEDDNN_SIZES(64, 16, 64, 2),
                         "16 rows a warp: two blocks a multiprocessor without spills")
RAGGEDDNN_BACKWARD_SHAPE(Nvidia, 96, RAGGEDDNN_SIZES(64, 16, 64, 2), RAGGEDDNN_SIZES(64, 16, 32, 1),
                         "half a block of queries: registers hold dK and dV beside the scores")
RAGGEDDNN_BACKWARD_SHAPE(Nvidia, 128, RAGGEDDNN_SIZES(64, 16, 64, 2),
                         RAGGEDDNN_SIZES(64, 16, 32, 1),
                         "half a block of queries: registers hold dK and dV beside the scores")
RAGGEDDNN_BACKWARD_SHAPE(Hopper, 64, RAGGEDDNN_SIZES(64, 16, 64, 2), RAGGEDDNN_SIZES(64, 16, 64, 2),
                         "one group of four warps: several blocks hide each other's exponentials")
RAGGEDDNN_BACKWARD_SHAPE(Hopper, 128, RAGGEDDNN_SIZES(64, 16, 64, 2),
                         RAGGEDDNN_SIZES(64, 16, 64, 2),
                         "one group of four warps: two blocks hide each other's exponentials")
RAGGEDDNN_SPLIT_BACKWARD_SHAPE(Nvidia, 192, RAGGEDDNN_SIZES(64, 16, 32, 1),
                               RAGGEDDNN_SIZES(64, 16, 32, 1), "dK and dV do not fit at once")
RAGGEDDNN_SPLIT_BACKWARD_SHAPE(Nvidia, 256, RAGGEDDNN_SIZES(64, 16, 16, 1),
                               RAGGEDDNN_SIZES(64, 16, 16, 1), "dK and dV do not fit at once")
RAGGEDDNN_SPLIT_BACKWARD_SHAPE(Hopper, 192, RAGGEDDNN_SIZES(128, 16, 64, 1),
                               RAGGEDDNN_SIZES(128, 16, 64, 1), "dK and dV do not fit at once")
RAGGEDDNN_SPLIT_BACKWARD_SHAPE(Hopper, 256, RAGGEDDNN_SIZES(128, 16, 64, 1),
                               RAGGEDDNN_SIZES(128, 16, 64, 1), "dK and dV do not fit at once")
#else
RAGGEDDNN_BACKWARD_SHAPE(Cdna, 64, RAGGEDDNN_SIZES(64, 16, 64, 1), RAGGEDDNN_SIZES(64, 16, 64, 1),
                         "rows of a tile stay in registers")
RAGGEDDNN_BACKWARD_SHAPE(Cdna, 96, RAGGEDDNN_SIZES(64, 16, 32, 1), RAGGEDDNN_SIZES(64, 16, 32, 1),
                         "half a block of the other side: LDS holds two waves a SIMD")
RAGGEDDNN_BACKWARD_SHAPE(Cdna, 128, RAGGEDDNN_SIZES(64, 16, 64, 1), RAGGEDDNN_SIZES(64, 16, 32, 1),
                         "rows of a tile stay in registers")
RAGGEDDNN_SPLIT_BACKWARD_SHAPE(Cdna, 192, RAGGEDDNN_SIZES(64, 16, 32, 1),
                               RAGGEDDNN_SIZES(64, 16, 16, 1), "as much as LDS holds of a block")
RAGGEDDNN_SPLIT_BACKWARD_SHAPE(Cdna, 256, RAGGEDDNN_SIZES(64, 16, 16, 1),
                               RAGGEDDNN_SIZES(64, 16, 16, 1), "as much as LDS holds of a block")
RAGGEDDNN_BACKWARD_SHAPE(Rdna3, 64, RAGGEDDNN_SIZES(64, 16, 32, 1), RAGGEDDNN_SIZES(64, 16, 16, 1),
                         "a quarter of a block of queries: 256 registers hold dK and dV beside it")
RAGGEDDNN_SPLIT_BACKWARD_SHAPE(Rdna3, 96, RAGGEDDNN_SIZES(64, 16, 32, 1),
                               RAGGEDDNN_SIZES(64, 16, 16, 1), "dK and dV do not fit at once")
RAGGEDDNN_SPLIT_BACKWARD_SHAPE(Rdna3, 128, RAGGEDDNN_SIZES(64, 16, 16, 1),
                               RAGGEDDNN_SIZES(64, 16, 16, 1), "dK and dV do not fit at once")
RAGGEDDNN_BACKWARD_SHAPE(Rdna4, 64, RAGGEDDNN_SIZES(64, 16, 32, 1), RAGGEDDNN_SIZES(64, 16, 32, 1),
                         "half a block of the other side: 256 registers")
RAGGEDDNN_BACKWARD_SHAPE(Rdna4, 96, RAGGEDDNN_SIZES(64, 16, 32, 1), RAGGEDDNN_SIZES(64, 16, 16, 1),
                         "a quarter of a block of the other side: 256 registers")
RAGGEDDNN_SPLIT_BACKWARD_SHAPE(Rdna4, 128, RAGGEDDNN_SIZES(64, 16, 16, 1),
                               RAGGEDDNN_SIZES(64, 16, 16, 1), "dK and dV do not fit at once")
#endif

#undef RAGGEDDNN_SIZES
#undef RAGGEDDNN_SPLIT_BACKWARD_SHAPE
#undef RAGGEDDNN_BACKWARD_SHAPE

}  // namespace raggeddnn::hip
