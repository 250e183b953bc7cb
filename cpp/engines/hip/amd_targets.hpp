// AMD's names of GPUs, as HIP's runtime and the build state them: which kernels a GPU runs.
#pragma once

#include <string>
#include <string_view>

namespace raggeddnn::hip {

enum class AmdFamily { NONE, CDNA, RDNA3, RDNA4 };

// "gfx90a:sramecc+:xnack-" is gfx90a with features.
constexpr std::string_view amd_target_of(std::string_view gcn_arch_name) {
    return gcn_arch_name.substr(0, gcn_arch_name.find(':'));
}

constexpr AmdFamily amd_family_of(std::string_view target) {
    if (target == "gfx90a" || target == "gfx942" || target == "gfx950") return AmdFamily::CDNA;
    if (target.size() == 7 && target.starts_with("gfx11")) return AmdFamily::RDNA3;
    if (target.size() == 7 && target.starts_with("gfx120")) return AmdFamily::RDNA4;
    return AmdFamily::NONE;
}

// Why a GPU runs none of the kernels built for `targets`, which commas part; empty: it does.
inline std::string why_amd_target_is_refused(std::string_view target, std::string_view targets) {
    std::string why = "GPU ";
    why.append(target).append(", expected ");
    if (amd_family_of(target) == AmdFamily::NONE) {
        return why.append("gfx90a, gfx942, gfx950, gfx11xx or gfx120x");
    }
    for (std::string_view left = targets; !left.empty();) {
        if (left.substr(0, left.find(',')) == target) return "";
        const size_t comma = left.find(',');
        left = comma == left.npos ? "" : left.substr(comma + 1);
    }
    return why.append("one of the build's targets, ").append(targets);
}

}  // namespace raggeddnn::hip
