// Kernels for the avx512_bf16 target; CMakeLists.txt has its instructions.
#include "kernel_set.hpp"

RAGGEDDNN_KERNEL_SET(AVX512_BF16_KERNELS, "avx512_bf16")
