// The compiled kernels, for the host: which there are, and how one is started. Defined by the files
// of instances/, which a GPU compiler builds.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "attention/params.hpp"

namespace raggeddnn::hip {

enum class ElementKind { BFLOAT16, FLOAT16 };

struct ForwardKernel {
    ElementKind element;
    int width;  // of q, k and v, at most
    int tile_rows;
    int block_keys;
    const char* reason;  // for these sizes
    // Orders the work and does it, on the stream. Returns null, or the runtime's error text.
    const char* (*launch)(const ForwardParams& params, void* stream);
};

// By element, then by width.
std::span<const ForwardKernel> forward_kernels();

// Whether the current device can run them; else why not. Where there is no runtime or no device,
// that is the reason.
bool is_device_usable(std::string& why);
// What the current device is, which plans are tied to: "sm_90", "gfx942"; "no device" without one.
std::string device_architecture();
// Copies from the device's memory to the host's and waits for the stream. Returns null, or the
// runtime's error text.
const char* read_back(void* to, const void* from, size_t bytes, void* stream);
// Where its buffers live: "cuda" or "hip".
const char* device_kind();
const char* engine_name();
int engine_priority();

}  // namespace raggeddnn::hip
