// The kernels of the SIMD target that a file is compiled for, as one table.
#pragma once

#include "../attention/bias_gradient.hpp"
#include "../attention/forward.hpp"

#define RAGGEDDNN_KERNEL_SET(TARGET, TITLE)                                                      \
    namespace raggeddnn::cpu {                                                                   \
    extern const KernelSet TARGET;                                                               \
    const KernelSet TARGET = {TITLE,      MAX_LANES,           FORWARD_PANELS,  forward_scratch, \
                              forward,    backward_scratch,    gradient_stride, backward_panel,  \
                              BLOCK_KEYS, add_score_gradients, store_gradients};                 \
    }
