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

const char* device_kind() { return "cuda"; }
const char* engine_name() { return "RAGGEDDNN_HIP_ENGINE"; }
int engine_priority() { return 100; }

}  // namespace raggeddnn::hip
