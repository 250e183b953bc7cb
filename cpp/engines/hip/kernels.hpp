// The compiled kernels, for the host: which there are, and how one is started. Defined by the files
// of instances/, which a GPU compiler builds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attention/params.hpp"

namespace raggeddnn::hip {

enum class ElementKind { BFLOAT16, FLOAT16, FLOAT32 };

// What every row of the tables states.
struct KernelFacts {
    const char* arch;  // of tile/arch.hpp
    ElementKind element;
    int width;  // of q, k and v, at most
    int tile_rows;
    int block_keys;
    const char* reason;  // for these sizes
    // Without matrix instructions: slower, and reads every problem that the engine takes.
    bool is_plain;
};

// launch() orders the work and does it, on the stream. Returns null, or the runtime's error text.
struct ForwardKernel : KernelFacts {
    const char* (*launch)(const ForwardParams& params, void* stream);
};
// Tiles of rows by blocks of keys for dQ, of keys by blocks of rows for dK and dV.
struct BackwardKernel : KernelFacts {
    int tile_keys;
    int block_rows;
    const char* (*launch)(const BackwardParams& params, void* stream);
};

using ForwardRows = std::span<const ForwardKernel>;
using BackwardRows = std::span<const BackwardKernel>;

// The narrower before the wider.
ForwardRows forward_kernels();
BackwardRows backward_kernels();

template <class Kernel>
std::vector<Kernel> joined(std::initializer_list<std::span<const Kernel>> tables) {
    std::vector<Kernel> all;
    for (const auto table : tables) all.insert(all.end(), table.begin(), table.end());
    return all;
}

// Whether the current device can run them; else why not. Where there is no runtime or no device,
// that is the reason.
bool is_device_usable(std::string& why);
// The architecture, of tile/arch.hpp, whose kernels the current device runs.
const char* device_arch();
// What the current device is, which plans are tied to: "sm_90", "gfx942"; "no device" without one.
std::string device_architecture();
// Copies from the device's memory to the host's and waits for the stream. Returns null, or the
// runtime's error text.
const char* read_back(void* to, const void* from, size_t bytes, void* stream);
// Where its buffers live: "cuda" or "hip".
const char* device_kind();
const char* engine_name();
int engine_priority();

// The narrowest kernel that fits; null if there is none.
template <class Kernel>
const Kernel* find_kernel(std::span<const Kernel> kernels, bool is_plain, ElementKind element,
                          int64_t width) {
    const std::string_view arch = device_arch();
    for (const Kernel& kernel : kernels) {
        if (kernel.is_plain == is_plain && kernel.element == element && kernel.width >= width &&
            kernel.arch == arch) {
            return &kernel;
        }
    }
    return nullptr;
}

}  // namespace raggeddnn::hip
