// Kernels for the avx2 target; CMakeLists.txt has its instructions.
#include "kernel_set.hpp"

RAGGEDDNN_KERNEL_SET(AVX2_KERNELS, "avx2")
