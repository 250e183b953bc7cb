// tile/hopper_ptx.hpp on the host, by the layouts of the PTX ISA. Products happen as late as they
// may: when they are waited for.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "emulated_nvidia.hpp"

namespace raggeddnn::hip {

struct MatrixDescriptor {
    const uint16_t* memory;
    int panel_bytes;
};
inline MatrixDescriptor matrix_descriptor(const uint16_t* memory, int panel_bytes) {
    return {memory, panel_bytes};
}
inline MatrixDescriptor moved(const MatrixDescriptor& descriptor, int elements) {
    return {descriptor.memory + elements, descriptor.panel_bytes};
}

namespace emulated_warpgroup {

inline constexpr int LANES = 128;

struct Product {
    float* c;
    int columns;
    bool adds;
    bool is_shared;  // a in shared memory, b by rows; else a in registers, b by columns
    MatrixDescriptor a;
    uint32_t registers[4];
    MatrixDescriptor b;
    float (*to_float)(uint16_t);
};

inline std::deque<std::vector<Product>>& groups_of_lane() {
    static std::map<int, std::deque<std::vector<Product>>> lanes;
    return lanes[emulation::Block::current().lane_in_block()];
}
inline std::vector<Product>& open_of_lane() {
    static std::map<int, std::vector<Product>> lanes;
    return lanes[emulation::Block::current().lane_in_block()];
}

// 128-byte swizzle: address bits 4 to 6 are exchanged by bits 7 to 9.
inline uint16_t swizzled(const uint16_t* memory, int bytes) {
    uintptr_t address = reinterpret_cast<uintptr_t>(memory) + static_cast<uintptr_t>(bytes);
    address ^= ((address >> 7) & 7U) << 4;
    return *reinterpret_cast<const uint16_t*>(address);
}
inline int row_bytes(int row) { return row / 8 * 1024 + row % 8 * 128; }

inline void multiply(void* const* lanes) {
    const auto product_of = [&](int lane) { return *static_cast<const Product*>(lanes[lane]); };
    const Product first = product_of(0);
    std::vector<float> a(64 * 16);
    std::vector<float> b(16 * static_cast<size_t>(first.columns));
    for (int l = 0; l < LANES; ++l) {
        const Product own = product_of(l);
        for (int i = 0; i < 8; ++i) {
            const int row = 16 * (l / 32) + l % 32 / 4 + 8 * ((i / 2) % 2);
            const int k = 2 * (l % 4) + i % 2 + 8 * (i / 4);
            const auto bits = own.is_shared
                                  ? swizzled(own.a.memory, row_bytes(row) + 2 * k)
                                  : static_cast<uint16_t>(own.registers[i / 2] >> (16 * (i % 2)));
            a[static_cast<size_t>(row * 16 + k)] = own.to_float(bits);
        }
    }
    for (int column = 0; column < first.columns; ++column) {
        for (int k = 0; k < 16; ++k) {
            const int at = first.is_shared ? row_bytes(column) + 2 * k
                                           : row_bytes(k) + column / 64 * first.b.panel_bytes +
                                                 2 * (column % 64);
            b[static_cast<size_t>(column * 16 + k)] = first.to_float(swizzled(first.b.memory, at));
        }
    }
    for (int l = 0; l < LANES; ++l) {
        const Product own = product_of(l);
        for (int i = 0; i < first.columns / 2; ++i) {
            const int row = 16 * (l / 32) + l % 32 / 4 + 8 * ((i / 2) % 2);
            const int column = 8 * (i / 4) + 2 * (l % 4) + i % 2;
            float sum = own.adds ? own.c[i] : 0.0F;
            for (int k = 0; k < 16; ++k) {
                sum +=
                    a[static_cast<size_t>(row * 16 + k)] * b[static_cast<size_t>(column * 16 + k)];
            }
            own.c[i] = sum;
        }
    }
}

}  // namespace emulated_warpgroup

inline void fence_async_proxy() {}
inline void stmatrix_x4(uint16_t* memory, int row, const uint32_t (&r)[4]) {
    struct Lane {
        uint16_t* row;
        const uint32_t* r;
    } lane{memory + row, r};
    emulation::Block::current().together(
        32,
        [](void* const* lanes) {
            for (int l = 0; l < 32; ++l) {
                for (int m = 0; m < 4; ++m) {
                    const uint32_t packed = static_cast<const Lane*>(lanes[l])->r[m];
                    uint16_t* const to = static_cast<Lane*>(lanes[8 * m + l / 4])->row;
                    to[2 * (l % 4)] = static_cast<uint16_t>(packed);
                    to[2 * (l % 4) + 1] = static_cast<uint16_t>(packed >> 16);
                }
            }
        },
        &lane);
}
inline void meet_wave() {
    emulation::Block::current().together(32, [](void* const*) {}, nullptr);
}
inline void warpgroup_fence() {}
inline void warpgroup_commit() {
    emulated_warpgroup::groups_of_lane().push_back(std::move(emulated_warpgroup::open_of_lane()));
    emulated_warpgroup::open_of_lane().clear();
}
template <int newest>
void warpgroup_wait() {
    auto& groups = emulated_warpgroup::groups_of_lane();
    while (groups.size() > static_cast<size_t>(newest)) {
        for (emulated_warpgroup::Product& product : groups.front()) {
            emulation::Block::current().together(emulated_warpgroup::LANES,
                                                 emulated_warpgroup::multiply, &product);
        }
        groups.pop_front();
    }
}

template <class Element, int TILES>
struct Wgmma {
    template <class Accumulator>
    static void shared(Accumulator* c, MatrixDescriptor a, MatrixDescriptor b, int adds) {
        emulated_warpgroup::open_of_lane().push_back(
            {c->x, 16 * TILES, adds != 0, true, a, {}, b, Element::to_float});
    }
    template <class Accumulator>
    static void registers(Accumulator* c, const uint32_t (&a)[4], MatrixDescriptor b) {
        emulated_warpgroup::open_of_lane().push_back(
            {c->x, 16 * TILES, true, false, {}, {a[0], a[1], a[2], a[3]}, b, Element::to_float});
    }
    template <class Accumulator>
    static void hold(Accumulator*) {}
};

}  // namespace raggeddnn::hip
