// The words that the same source needs on a GPU and on the host.
#pragma once

#include <cstdint>

#if defined(__HIP__)
#include <cstdlib>  // which clang's own header <new> takes as given

// Without HIP's headers for device code, whose device libraries not every compiler has for every
// target. HIP's interface header has the same words.
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
// Registers for two waves a SIMD: on CDNA the half of them that every instruction can name, since
// moves from and to the other half cost more than it would save.
#define __launch_bounds__(threads, ...) \
    __attribute__((amdgpu_flat_work_group_size(threads, threads), amdgpu_waves_per_eu(2)))
#endif

#if defined(__CUDACC__) || defined(__HIP__)
#define RAGGEDDNN_DEVICE __device__
#define RAGGEDDNN_EITHER __host__ __device__
#define RAGGEDDNN_COLD __device__ __attribute__((noinline))
#else
#define RAGGEDDNN_DEVICE
#define RAGGEDDNN_EITHER
#define RAGGEDDNN_COLD
#endif

// What is too large for clang to take as part of its caller by itself, and must be.
#if defined(__HIP__)
#define RAGGEDDNN_INLINE __device__ __attribute__((always_inline))
#else
#define RAGGEDDNN_INLINE RAGGEDDNN_DEVICE
#endif
