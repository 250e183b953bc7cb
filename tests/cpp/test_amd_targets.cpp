// Which kernels an AMD GPU runs, by the name that HIP's runtime gives it.
#include "engines/hip/amd_targets.hpp"

#include <cstdio>

using namespace raggeddnn::hip;

namespace {

static_assert(amd_target_of("gfx90a:sramecc+:xnack-") == "gfx90a");
static_assert(amd_target_of("gfx1201") == "gfx1201");

static_assert(amd_family_of("gfx90a") == AmdFamily::CDNA);
static_assert(amd_family_of("gfx942") == AmdFamily::CDNA);
static_assert(amd_family_of("gfx950") == AmdFamily::CDNA);
static_assert(amd_family_of("gfx1100") == AmdFamily::RDNA3);
static_assert(amd_family_of("gfx1151") == AmdFamily::RDNA3);
static_assert(amd_family_of("gfx1201") == AmdFamily::RDNA4);
static_assert(amd_family_of("gfx908") == AmdFamily::NONE);
static_assert(amd_family_of("gfx1030") == AmdFamily::NONE);
static_assert(amd_family_of("gfx1250") == AmdFamily::NONE);  // other matrix instructions
static_assert(amd_family_of("") == AmdFamily::NONE);

int failures = 0;

void check_refusal(const char* target, const char* targets, const std::string& expected) {
    const std::string got = why_amd_target_is_refused(target, targets);
    if (got == expected) return;
    ++failures;
    std::fprintf(stderr, "failed: %s of %s: got '%s', expected '%s'\n", target, targets,
                 got.c_str(), expected.c_str());
}

}  // namespace

int main() {
    check_refusal("gfx942", "gfx942", "");
    check_refusal("gfx1100", "gfx90a,gfx942,gfx1100", "");
    check_refusal("gfx1100", "gfx1101,gfx942",
                  "GPU gfx1100, expected one of the build's targets, gfx1101,gfx942");
    check_refusal("gfx90a", "gfx942", "GPU gfx90a, expected one of the build's targets, gfx942");
    check_refusal("gfx1030", "gfx1030",
                  "GPU gfx1030, expected gfx90a, gfx942, gfx950, gfx11xx or gfx120x");
    return failures != 0;
}
