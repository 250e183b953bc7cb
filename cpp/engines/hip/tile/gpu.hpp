// Where a thread is, barriers and atomics: what both vendors spell differently.
#pragma once

#include <cstdint>

#if defined(RAGGEDDNN_EMULATED_WAVE)
#include "emulated_gpu.hpp"
#elif defined(__CUDACC__)

#define RAGGEDDNN_KERNEL __global__
#define RAGGEDDNN_SHARED __shared__
#define RAGGEDDNN_GRID_CONSTANT __grid_constant__

namespace raggeddnn::hip {
__device__ inline int thread_index() { return static_cast<int>(threadIdx.x); }
__device__ inline int block_index() { return static_cast<int>(blockIdx.x); }
__device__ inline int thread_count() { return static_cast<int>(blockDim.x); }
__device__ inline void block_barrier() { __syncthreads(); }
__device__ inline unsigned long long take_number(unsigned long long* counter) {
    return atomicAdd(counter, 1ULL);
}
__device__ inline int64_t add_shared(int64_t* counter, int64_t by) {
    return static_cast<int64_t>(atomicAdd(reinterpret_cast<unsigned long long*>(counter),
                                          static_cast<unsigned long long>(by)));
}
__device__ inline uint32_t lower(uint32_t* least, uint32_t to) { return atomicMin(least, to); }
}  // namespace raggeddnn::hip

#else

// Without HIP's headers, whose device libraries not every compiler has for every target.
#if !defined(__HIP_INCLUDE_HIP_HIP_RUNTIME_H) && !defined(HIP_INCLUDE_HIP_HIP_RUNTIME_H)
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#endif
#define RAGGEDDNN_KERNEL __global__
#define RAGGEDDNN_SHARED __shared__
#define RAGGEDDNN_GRID_CONSTANT

namespace raggeddnn::hip {
__device__ inline int thread_index() { return static_cast<int>(__builtin_amdgcn_workitem_id_x()); }
__device__ inline int block_index() { return static_cast<int>(__builtin_amdgcn_workgroup_id_x()); }
__device__ inline int thread_count() {
    return static_cast<int>(__builtin_amdgcn_workgroup_size_x());
}
__device__ inline void block_barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
__device__ inline unsigned long long take_number(unsigned long long* counter) {
    return __atomic_fetch_add(counter, 1ULL, __ATOMIC_RELAXED);
}
__device__ inline int64_t add_shared(int64_t* counter, int64_t by) {
    return __atomic_fetch_add(counter, by, __ATOMIC_RELAXED);
}
__device__ inline uint32_t lower(uint32_t* least, uint32_t to) {
    return __atomic_fetch_min(least, to, __ATOMIC_RELAXED);
}
}  // namespace raggeddnn::hip

#endif
