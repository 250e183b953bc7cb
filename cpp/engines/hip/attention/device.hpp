// The words that the same source needs on a GPU and on the host.
#pragma once

#include <cstdint>

#if defined(__CUDACC__) || defined(__HIP__)
#define RAGGEDDNN_DEVICE __device__
#define RAGGEDDNN_EITHER __host__ __device__
#define RAGGEDDNN_COLD __device__ __attribute__((noinline))
#else
#define RAGGEDDNN_DEVICE
#define RAGGEDDNN_EITHER
#define RAGGEDDNN_COLD
#endif
