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

const KernelSet& choose(std::string_view asked) {
    std::string names;
    for (const KernelSet* set : runnable_kernels()) {
        if (asked.empty() || asked == set->name) return *set;
        names += (names.empty() ? "" : ", ") + std::string(set->name);
    }
    invalid("RAGGEDDNN_CPU_TARGET is '", asked, "', expected one that this machine runs: ", names);
}

}  // namespace

std::vector<const KernelSet*> runnable_kernels() {
    std::vector<const KernelSet*> sets;
#if defined(__x86_64__)
    if (has_avx512() && __builtin_cpu_supports("avx512bf16")) sets.push_back(&AVX512_BF16_KERNELS);
    if (has_avx512()) sets.push_back(&AVX512_KERNELS);
    if (has_avx2()) sets.push_back(&AVX2_KERNELS);
#elif defined(__aarch64__)
    sets.push_back(&NEON_KERNELS);
#endif
    sets.push_back(&PORTABLE_KERNELS);
    return sets;
}

const KernelSet& kernels() {
    static const KernelSet& chosen = [&]() -> const KernelSet& {
        const char* asked = std::getenv("RAGGEDDNN_CPU_TARGET");
        return choose(asked ? asked : "");
    }();
    return chosen;
}

}  // namespace raggeddnn::cpu
