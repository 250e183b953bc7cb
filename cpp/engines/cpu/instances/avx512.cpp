// Kernels for the avx512 target; CMakeLists.txt has its instructions.
#include "kernel_set.hpp"

RAGGEDDNN_KERNEL_SET(AVX512_KERNELS, "avx512")
