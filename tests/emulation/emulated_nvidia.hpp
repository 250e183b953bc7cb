// tile/nvidia_ptx.hpp on the host, by the layouts of the PTX ISA.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

#include "emulated_math.hpp"
#include "tile/element.hpp"

namespace raggeddnn::hip {

template <bool IS_TRANSPOSED>
void ldmatrix_x4(uint32_t (&r)[4], const uint16_t* memory, int row) {
    struct Lane {
        const uint16_t* row;
        uint32_t* r;
    } lane{memory + row, r};
    emulation::Block::current().together(
        32,
        [](void* const* lanes) {
            for (int l = 0; l < 32; ++l) {
                for (int m = 0; m < 4; ++m) {
                    uint32_t packed = 0;
                    for (int e = 0; e < 2; ++e) {
                        const int at_row = IS_TRANSPOSED ? 2 * (l % 4) + e : l / 4;
                        const int at_column = IS_TRANSPOSED ? l / 4 : 2 * (l % 4) + e;
                        const auto* from = static_cast<const Lane*>(lanes[8 * m + at_row]);
                        packed |= static_cast<uint32_t>(from->row[at_column]) << (16 * e);
                    }
                    static_cast<Lane*>(lanes[l])->r[m] = packed;
                }
            }
        },
        &lane);
}

template <class Element>
void mma_16816(float* c, const uint32_t (&a)[4], const uint32_t* b) {
    struct Lane {
        float* c;
        const uint32_t* a;
        const uint32_t* b;
    } lane{c, a, b};
    emulation::Block::current().together(
        32,
        [](void* const* lanes) {
            float rows[16][16];
            float columns[16][8];
            for (int l = 0; l < 32; ++l) {
                const auto* own = static_cast<const Lane*>(lanes[l]);
                for (int i = 0; i < 8; ++i) {
                    const auto bits = static_cast<uint16_t>(own->a[i / 2] >> (16 * (i % 2)));
                    rows[l / 4 + 8 * ((i / 2) % 2)][2 * (l % 4) + i % 2 + 8 * (i / 4)] =
                        Element::to_float(bits);
                }
                for (int i = 0; i < 4; ++i) {
                    const auto bits = static_cast<uint16_t>(own->b[i / 2] >> (16 * (i % 2)));
                    columns[2 * (l % 4) + i % 2 + 8 * (i / 2)][l / 4] = Element::to_float(bits);
                }
            }
            for (int l = 0; l < 32; ++l) {
                auto* own = static_cast<Lane*>(lanes[l]);
                for (int i = 0; i < 4; ++i) {
                    float sum = own->c[i];
                    for (int k = 0; k < 16; ++k) {
                        sum += rows[l / 4 + 8 * (i / 2)][k] * columns[k][2 * (l % 4) + i % 2];
                    }
                    own->c[i] = sum;
                }
            }
        },
        &lane);
}

template <class Element>
uint32_t pack(float low, float high) {
    return Element::from_float(low) | static_cast<uint32_t>(Element::from_float(high)) << 16;
}

inline bool any_lane(bool is_true) { return any_of_wave<32>(is_true); }

template <class T>
T shuffle_xor(T x, int mask) {
    return exchange<32>(x, mask);
}

// Copies arrive as late as they may: when they are waited for.
namespace emulated_copies {
struct Copy {
    void* to;
    size_t count;
    unsigned char bytes[16];
};
struct Pending {
    std::vector<Copy> open;
    std::deque<std::vector<Copy>> groups;
};
inline Pending& of_lane() {
    static std::map<int, Pending> lanes;
    return lanes[emulation::Block::current().lane_in_block()];
}
}  // namespace emulated_copies

inline void copy_async_16(uint16_t* memory, int at, const void* from, bool is_there) {
    emulated_copies::Copy copy{memory + at, 16, {}};
    if (is_there) std::memcpy(copy.bytes, from, 16);
    emulated_copies::of_lane().open.push_back(copy);
}
inline void copies_commit() {
    emulated_copies::Pending& pending = emulated_copies::of_lane();
    pending.groups.push_back(std::move(pending.open));
    pending.open.clear();
}
template <int newest>
void copies_done() {
    auto& groups = emulated_copies::of_lane().groups;
    while (groups.size() > static_cast<size_t>(newest)) {
        for (const emulated_copies::Copy& copy : groups.front()) {
            std::memcpy(copy.to, copy.bytes, copy.count);
        }
        groups.pop_front();
    }
}

}  // namespace raggeddnn::hip
