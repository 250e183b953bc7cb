// The silicon that kernels are compiled for. A build has the architectures of one vendor; each is a
// tag that says its matrix tile, its products of blocks, and whether the compiler is at work on it.
// Nothing outside this folder asks for an architecture.
#pragma once

#include "gpu.hpp"
#include "products.hpp"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(RAGGEDDNN_EMULATE_HOPPER)
#define RAGGEDDNN_IS_HOPPER true
#else
#define RAGGEDDNN_IS_HOPPER false
#endif

namespace raggeddnn::hip {
template <class...>
struct Archs {};
}  // namespace raggeddnn::hip

#if defined(RAGGEDDNN_EMULATED_WAVE) && defined(RAGGEDDNN_EMULATE_NVIDIA) || defined(__CUDACC__)

#include "hopper.hpp"
#include "nvidia.hpp"
#include "stage_async.hpp"

namespace raggeddnn::hip {

// Compute capability 8.0 and higher.
struct Nvidia : TiledArch {
    static constexpr const char* NAME = "nvidia";
    static constexpr bool IS_COMPILED = !RAGGEDDNN_IS_HOPPER;
    template <class Element>
    using Tile = NvidiaTile<Element>;
};
// Compute capability 9.0, built for sm_90a.
struct Hopper : TiledArch {
    static constexpr const char* NAME = "hopper";
    static constexpr bool IS_COMPILED = RAGGEDDNN_IS_HOPPER;
    static constexpr int SHARED_ALIGNMENT = 1024;  // the swizzle repeats
    static constexpr bool WAITS_FOR_KERNELS = true;
    // Blocks of threads that a multiprocessor is to hold, which caps their registers: as its 227 KB
    // of shared memory allow, and so that each thread has the registers that its pass needs.
    static constexpr int blocks_at_once(int threads, int registers, int shared_bytes) {
        const int by_memory = 227 * 1024 / (shared_bytes + 1024);
        const int by_registers = 65536 / (threads * registers);
        const int blocks = by_memory < by_registers ? by_memory : by_registers;
        return blocks < 1 ? 1 : blocks;
    }
    template <class Element>
    using Tile = HopperTile<Element>;
    template <class Tile, class Rows, class Columns, int WAVE_ROWS, int = 16>
    using RowProduct = HopperRowProduct<Tile, Rows, Columns, WAVE_ROWS>;
    template <class Tile, class Values, int WAVE_ROWS>
    using WeightProduct = HopperWeightProduct<Tile, Values, WAVE_ROWS>;
};
using AllArchs = Archs<Nvidia, Hopper>;

}  // namespace raggeddnn::hip

#else

#include "amd.hpp"
#include "stage_registers.hpp"

namespace raggeddnn::hip {

struct Cdna : TiledArch {
    static constexpr const char* NAME = "cdna";
#if defined(__GFX9__) || defined(RAGGEDDNN_EMULATE_CDNA)
    static constexpr bool IS_COMPILED = true;
#else
    static constexpr bool IS_COMPILED = false;
#endif
#if defined(__gfx942__) || defined(__gfx950__) || defined(RAGGEDDNN_EMULATE_CDNA)
    static constexpr int DIES = 8;  // some products and partitions have fewer
#endif
    template <class Element>
    using Tile = CdnaTile<Element>;
};
struct Rdna3 : TiledArch {
    static constexpr const char* NAME = "rdna3";
#if defined(__GFX11__) || defined(RAGGEDDNN_EMULATE_RDNA3)
    static constexpr bool IS_COMPILED = true;
#else
    static constexpr bool IS_COMPILED = false;
#endif
    template <class Element>
    using Tile = Rdna3Tile<Element>;
};
struct Rdna4 : TiledArch {
    static constexpr const char* NAME = "rdna4";
#if defined(__GFX12__) || defined(RAGGEDDNN_EMULATE_RDNA4)
    static constexpr bool IS_COMPILED = true;
#else
    static constexpr bool IS_COMPILED = false;
#endif
    template <class Element>
    using Tile = Rdna4Tile<Element>;
};
using AllArchs = Archs<Cdna, Rdna3, Rdna4>;

}  // namespace raggeddnn::hip

#endif
