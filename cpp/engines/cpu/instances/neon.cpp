// Kernels for any 64-bit Arm machine.
#include "kernel_set.hpp"

RAGGEDDNN_KERNEL_SET(NEON_KERNELS, "neon")
