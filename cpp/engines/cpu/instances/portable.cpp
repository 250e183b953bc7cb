// Kernels for any machine of the architecture.
#include "kernel_set.hpp"

RAGGEDDNN_KERNEL_SET(PORTABLE_KERNELS, "portable")
