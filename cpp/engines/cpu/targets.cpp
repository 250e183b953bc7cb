// Which kernels this machine runs.
#include "targets.hpp"

#include <cstdlib>
#include <string>
#include <string_view>

#include "raggeddnn/base/error.hpp"

namespace raggeddnn::cpu {

extern const KernelSet PORTABLE_KERNELS;
#if defined(__x86_64__)
extern const KernelSet AVX2_KERNELS;
extern const KernelSet AVX512_KERNELS;
extern const KernelSet AVX512_BF16_KERNELS;
#elif defined(__aarch64__)
extern const KernelSet NEON_KERNELS;
#endif

namespace {

struct Target {
    const KernelSet* kernels;
    bool is_runnable;
};

#if defined(__x86_64__)
bool has_avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c");
}

bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif

// The best first.
const KernelSet& choose(std::string_view asked) {
    const Target targets[] = {
#if defined(__x86_64__)
        {&AVX512_BF16_KERNELS, has_avx512() && __builtin_cpu_supports("avx512bf16")},
        {&AVX512_KERNELS, has_avx512()},
        {&AVX2_KERNELS, has_avx2()},
#elif defined(__aarch64__)
        {&NEON_KERNELS, true},
#endif
        {&PORTABLE_KERNELS, true},
    };
    std::string runnable;
    for (const Target& target : targets) {
        if (!target.is_runnable) continue;
        if (asked.empty() || asked == target.kernels->name) return *target.kernels;
        runnable += (runnable.empty() ? "" : ", ") + std::string(target.kernels->name);
    }
    invalid("RAGGEDDNN_CPU_TARGET is '", asked,
            "', expected one that this machine runs: ", runnable);
}

}  // namespace

const KernelSet& kernels() {
    static const KernelSet& chosen = [&]() -> const KernelSet& {
        const char* asked = std::getenv("RAGGEDDNN_CPU_TARGET");
        return choose(asked ? asked : "");
    }();
    return chosen;
}

}  // namespace raggeddnn::cpu
