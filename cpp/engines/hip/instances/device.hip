// Asks the runtime about the device.
#include "../amd_targets.hpp"
#include "../kernels.hpp"
#include "../runtime.hpp"
#include "../tile/arch.hpp"

namespace raggeddnn::hip {

namespace {

// Whether the runtime has a device; else why not.
bool has_device(const char* kind, std::string& why) {
    int count = 0;
    const char* const reason = gpu::failure(gpu::device_count(&count));
    if (!reason && count > 0) return true;
    why = std::string("no ") + kind + " device";
    if (reason) why += std::string(": ") + reason;
    return false;
}

}  // namespace

#if defined(__CUDACC__)

namespace {

__global__ void probe_kernel() {}

struct Capability {
    int major = 0;
    int minor = 0;
};

Capability current_capability() {
    Capability found;
    int device = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&found.major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&found.minor, cudaDevAttrComputeCapabilityMinor, device);
    return found;
}

}  // namespace

bool is_device_usable(std::string& why) {
    if (!has_device("CUDA", why)) return false;
    cudaFuncAttributes attributes;
    if (const char* reason = gpu::failure(cudaFuncGetAttributes(&attributes, probe_kernel))) {
        const Capability found = current_capability();
        why = "compute capability " + std::to_string(found.major) + "." +
              std::to_string(found.minor) + ", expected one of the build's targets, " +
              RAGGEDDNN_GPU_TARGETS + ": " + reason;
        return false;
    }
    return true;
}

const char* device_arch() {
    // Kernels for sm_90a run on 9.0 alone; where they were not built the others do.
    const bool is_hopper = RAGGEDDNN_BUILDS_HOPPER && current_capability().major == 9;
    return is_hopper ? Hopper::NAME : Nvidia::NAME;
}

std::string device_architecture() {
    const Capability found = current_capability();
    if (found.major == 0) return "no device";
    return "sm_" + std::to_string(10 * found.major + found.minor);
}

const char* device_kind() { return "cuda"; }

#else

namespace {

std::string current_target() {
    int device = 0;
    hipDeviceProp_t properties{};
    if (hipGetDevice(&device) != hipSuccess) return "";
    if (hipGetDeviceProperties(&properties, device) != hipSuccess) return "";
    return std::string(amd_target_of(properties.gcnArchName));
}

}  // namespace

bool is_device_usable(std::string& why) {
    if (!has_device("ROCm", why)) return false;
    why = why_amd_target_is_refused(current_target(), RAGGEDDNN_GPU_TARGETS);
    return why.empty();
}

const char* device_arch() {
    switch (amd_family_of(current_target())) {
        case AmdFamily::CDNA: return Cdna::NAME;
        case AmdFamily::RDNA3: return Rdna3::NAME;
        case AmdFamily::RDNA4: return Rdna4::NAME;
        case AmdFamily::NONE: break;
    }
    return "";
}

std::string device_architecture() {
    const std::string found = current_target();
    return found.empty() ? "no device" : found;
}

const char* device_kind() { return "hip"; }

#endif

const char* read_back(void* to, const void* from, size_t bytes, void* stream) {
    const auto on = static_cast<gpu::Stream>(stream);
    auto error = gpu::copy_to_host(to, from, bytes, on);
    if (error == gpu::SUCCESS) error = gpu::synchronize(on);
    return gpu::failure(error);
}

const char* engine_name() { return "RAGGEDDNN_HIP_ENGINE"; }
int engine_priority() { return 100; }

}  // namespace raggeddnn::hip
