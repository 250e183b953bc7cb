// The few names of HIP's runtime that are used here, on whichever runtime there is.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <type_traits>

#if defined(__CUDACC__)
#include <cuda_runtime.h>

namespace raggeddnn::hip::gpu {
using Error = cudaError_t;
using Stream = cudaStream_t;
inline constexpr Error SUCCESS = cudaSuccess;
inline constexpr bool IS_SHARED_DYNAMIC = true;  // the memory of a pass is asked for at its launch
inline const char* text_of(Error error) { return cudaGetErrorString(error); }
inline Error last_error() { return cudaGetLastError(); }
template <class Kernel>
Error allow_shared_memory(Kernel kernel, int bytes) {
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}
template <class Kernel>
Error blocks_per_processor(int* count, Kernel kernel, int threads, size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(count, kernel, threads, shared);
}
inline Error device_count(int* count) { return cudaGetDeviceCount(count); }
inline Error current_device(int* device) { return cudaGetDevice(device); }
inline Error copy_to_host(void* to, const void* from, size_t bytes, Stream stream) {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream);
}
inline Error synchronize(Stream stream) { return cudaStreamSynchronize(stream); }
inline Error processor_count(int* count, int device) {
    return cudaDeviceGetAttribute(count, cudaDevAttrMultiProcessorCount, device);
}
// IS_EARLY: a kernel that waits by itself for what the one before it leaves: its blocks may be
// there earlier.
template <bool IS_EARLY, class... Params>
Error launch(void (*kernel)(Params...), unsigned blocks, int threads, int shared, Stream stream,
             const std::type_identity_t<Params>&... params) {
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = blocks;
    config.blockDim = static_cast<unsigned>(threads);
    config.dynamicSmemBytes = static_cast<size_t>(shared);
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = IS_EARLY ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, params...);
}
}  // namespace raggeddnn::hip::gpu

#else
// The interface alone: kernels need nothing of HIP's headers for device code.
#include <hip/hip_runtime_api.h>

namespace raggeddnn::hip::gpu {
using Error = hipError_t;
using Stream = hipStream_t;
inline constexpr Error SUCCESS = hipSuccess;
inline constexpr bool IS_SHARED_DYNAMIC = false;
inline const char* text_of(Error error) { return hipGetErrorString(error); }
inline Error last_error() { return hipGetLastError(); }
template <class Kernel>
Error allow_shared_memory(Kernel, int) {
    return SUCCESS;
}
template <class Kernel>
Error blocks_per_processor(int* count, Kernel kernel, int threads, size_t shared) {
    return hipOccupancyMaxActiveBlocksPerMultiprocessor(count, kernel, threads, shared);
}
inline Error device_count(int* count) { return hipGetDeviceCount(count); }
inline Error current_device(int* device) { return hipGetDevice(device); }
inline Error copy_to_host(void* to, const void* from, size_t bytes, Stream stream) {
    return hipMemcpyAsync(to, from, bytes, hipMemcpyDeviceToHost, stream);
}
inline Error synchronize(Stream stream) { return hipStreamSynchronize(stream); }
inline Error processor_count(int* count, int device) {
    return hipDeviceGetAttribute(count, hipDeviceAttributeMultiprocessorCount, device);
}
template <bool IS_EARLY, class... Params>
Error launch(void (*kernel)(Params...), unsigned blocks, int threads, int shared, Stream stream,
             const std::type_identity_t<Params>&... params) {
    static_assert(!IS_EARLY, "nothing of AMD's hardware can");
    void* arguments[] = {const_cast<void*>(static_cast<const void*>(&params))...};
    return hipLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(blocks),
                           dim3(static_cast<unsigned>(threads)), arguments,
                           static_cast<size_t>(shared), stream);
}
}  // namespace raggeddnn::hip::gpu

#endif

namespace raggeddnn::hip::gpu {

// Null, or the error's text. It is then not the runtime's last one any more, which the next one to
// ask would take for its own; what an application left there before stays.
inline const char* failure(Error error) {
    if (error == SUCCESS) return nullptr;
    static_cast<void>(last_error());
    return text_of(error);
}

// How many blocks of one kernel a device runs at once. Asked once for each device, when the kernel
// is also allowed its shared memory: the answers take longer than a launch.
class ResidentBlocks {
public:
    // Null, or why there are none. `check`, asked once for each device, says why it cannot run it.
    template <class Kernel, class Check>
    const char* find(int* blocks, Kernel kernel, int threads, int shared, const Check& check) {
        int device = 0;
        if (const Error error = current_device(&device)) return failure(error);
        const bool has_place = static_cast<size_t>(device) < known_.size();
        *blocks = has_place ? known_[device].load(std::memory_order_acquire) : 0;
        if (*blocks > 0) return nullptr;
        if (const char* reason = check()) return reason;
        int per_processor = 0;
        int processors = 0;
        Error error = allow_shared_memory(kernel, shared);
        if (error == SUCCESS) {
            error = blocks_per_processor(&per_processor, kernel, threads, shared);
        }
        if (error == SUCCESS) error = processor_count(&processors, device);
        if (error != SUCCESS) return failure(error);
        *blocks = per_processor * processors;
        if (has_place) known_[device].store(*blocks, std::memory_order_release);
        return nullptr;
    }

private:
    std::array<std::atomic<int>, 64> known_{};  // by device; 0: not asked yet
};

}  // namespace raggeddnn::hip::gpu
