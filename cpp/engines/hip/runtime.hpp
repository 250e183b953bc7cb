// The few names of HIP's runtime that are used here, on whichever runtime there is.
#pragma once

#if defined(__CUDACC__)
#include <cuda_runtime.h>

namespace raggeddnn::hip::gpu {
using Error = cudaError_t;
using Stream = cudaStream_t;
inline constexpr Error SUCCESS = cudaSuccess;
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
inline Error processor_count(int* count) {
    int device = 0;
    if (const Error error = cudaGetDevice(&device)) return error;
    return cudaDeviceGetAttribute(count, cudaDevAttrMultiProcessorCount, device);
}
}  // namespace raggeddnn::hip::gpu

#else
#include <hip/hip_runtime.h>

namespace raggeddnn::hip::gpu {
using Error = hipError_t;
using Stream = hipStream_t;
inline constexpr Error SUCCESS = hipSuccess;
inline const char* text_of(Error error) { return hipGetErrorString(error); }
inline Error last_error() { return hipGetLastError(); }
template <class Kernel>
Error allow_shared_memory(Kernel kernel, int bytes) {
    return hipFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                               hipFuncAttributeMaxDynamicSharedMemorySize, bytes);
}
template <class Kernel>
Error blocks_per_processor(int* count, Kernel kernel, int threads, size_t shared) {
    return hipOccupancyMaxActiveBlocksPerMultiprocessor(count, kernel, threads, shared);
}
inline Error processor_count(int* count) {
    int device = 0;
    if (const Error error = hipGetDevice(&device)) return error;
    return hipDeviceGetAttribute(count, hipDeviceAttributeMultiprocessorCount, device);
}
}  // namespace raggeddnn::hip::gpu

#endif
