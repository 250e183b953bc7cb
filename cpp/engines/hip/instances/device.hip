// Asks the runtime about the device.
#include "../kernels.hpp"
#include "../runtime.hpp"

namespace raggeddnn::hip {

bool is_device_usable(std::string& why) {
    int count = 0;
    if (const auto error = cudaGetDeviceCount(&count); error != cudaSuccess) {
        why = std::string("no CUDA device: ") + gpu::text_of(error);
        return false;
    }
    int device = 0;
    int major = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (count > 0 && major >= 8) return true;
    why = count == 0 ? "no CUDA device"
                     : "compute capability " + std::to_string(major) + ".x, expected 8.0 or higher";
    return false;
}

std::string device_architecture() {
    int device = 0;
    int major = 0;
    int minor = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess) {
        return "no device";
    }
    return "sm_" + std::to_string(10 * major + minor);
}

const char* read_back(void* to, const void* from, size_t bytes, void* stream) {
    const auto on = static_cast<gpu::Stream>(stream);
    auto error = gpu::copy_to_host(to, from, bytes, on);
    if (error == gpu::SUCCESS) error = gpu::synchronize(on);
    return error == gpu::SUCCESS ? nullptr : gpu::text_of(error);
}

const char* device_kind() { return "cuda"; }
const char* engine_name() { return "RAGGEDDNN_HIP_ENGINE"; }
int engine_priority() { return 100; }

}  // namespace raggeddnn::hip
