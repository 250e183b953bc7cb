// The silicon that kernels are compiled for. A build has the architectures of one vendor; each is a
// tag that says its matrix tile and whether the compiler is at work on it. Nothing outside this
// folder asks for an architecture.
#pragma once

#include "gpu.hpp"

#if defined(RAGGEDDNN_EMULATED_WAVE) && defined(RAGGEDDNN_EMULATE_NVIDIA) || defined(__CUDACC__)

#include "nvidia.hpp"
#include "stage_async.hpp"

namespace raggeddnn::hip {

struct Nvidia {
    static constexpr const char* NAME = "nvidia";
    static constexpr bool IS_COMPILED = true;
    template <class Element>
    using Tile = NvidiaTile<Element>;
};

}  // namespace raggeddnn::hip

#else

#include "amd.hpp"
#include "stage_registers.hpp"

namespace raggeddnn::hip {

struct Cdna {
    static constexpr const char* NAME = "cdna";
#if defined(__GFX9__) || defined(RAGGEDDNN_EMULATE_CDNA)
    static constexpr bool IS_COMPILED = true;
#else
    static constexpr bool IS_COMPILED = false;
#endif
    template <class Element>
    using Tile = CdnaTile<Element>;
};
struct Rdna3 {
    static constexpr const char* NAME = "rdna3";
#if defined(__GFX11__) || defined(RAGGEDDNN_EMULATE_RDNA3)
    static constexpr bool IS_COMPILED = true;
#else
    static constexpr bool IS_COMPILED = false;
#endif
    template <class Element>
    using Tile = Rdna3Tile<Element>;
};
struct Rdna4 {
    static constexpr const char* NAME = "rdna4";
#if defined(__GFX12__) || defined(RAGGEDDNN_EMULATE_RDNA4)
    static constexpr bool IS_COMPILED = true;
#else
    static constexpr bool IS_COMPILED = false;
#endif
    template <class Element>
    using Tile = Rdna4Tile<Element>;
};

}  // namespace raggeddnn::hip

#endif
