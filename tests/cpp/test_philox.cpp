// Philox4x32-10 against the known answers of Random123, and how a call's dropout is keyed.
#include "raggeddnn/plugin/philox.hpp"

#include <cstdio>

using raggeddnn::plugin::Dropout;
using raggeddnn::plugin::philox4x32_10;
using raggeddnn::plugin::PhiloxWords;

namespace {

constexpr bool same(const PhiloxWords& got, const PhiloxWords& expected) {
    for (int i = 0; i < 4; ++i) {
        if (got.words[i] != expected.words[i]) return false;
    }
    return true;
}

static_assert(same(philox4x32_10({{0, 0, 0, 0}}, 0, 0),
                   {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}));
static_assert(same(philox4x32_10({{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u),
                   {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}));
static_assert(same(philox4x32_10({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822,
                                 0x299f31d0),
                   {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}));

constexpr Dropout quarter = Dropout::make(0.25, 0x1122334455667788, 0);
static_assert(quarter.key_low == 0x55667788 && quarter.key_high == 0x11223344);
static_assert(quarter.threshold == 0x40000000 && quarter.keep_scale == 1.0 / 0.75);
static_assert(Dropout::make(0.25, -1, 0).key_high == ~0u);
static_assert(Dropout::make(0.25, 0, 1).key_low == 0x7F4A7C15);
static_assert(Dropout::make(0.0, 5, 5).keeps(1, 2, 3, 4));
static_assert(Dropout::make(0.0, 5, 5).factor(1, 2, 3, 4) == 1.0);

}  // namespace

int main() {
    int64_t kept = 0;
    for (int64_t row = 0; row < 256; ++row) {
        for (int64_t col = 0; col < 256; ++col) kept += quarter.keeps(0, 1, row, col);
    }
    const double share = static_cast<double>(kept) / 65536.0;
    if (share > 0.74 && share < 0.76) return 0;
    std::fprintf(stderr, "kept %f of the probabilities, expected about 0.75\n", share);
    return 1;
}
