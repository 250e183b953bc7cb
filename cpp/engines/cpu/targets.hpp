// Which kernels this machine runs.
#pragma once

#include <vector>

#include "kernels.hpp"

namespace raggeddnn::cpu {

// Of every target that this machine runs, the best first.
std::vector<const KernelSet*> runnable_kernels();

// Those of the widest instructions that the processor has, or of the target that the variable
// RAGGEDDNN_CPU_TARGET names: "avx512_bf16", "avx512", "avx2", "neon" or "portable". Throws
// INVALID_VALUE where it names one that is not built in or that the processor cannot run.
const KernelSet& kernels();

}  // namespace raggeddnn::cpu
