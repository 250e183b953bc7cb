// tile/amd_isa.hpp on the host, by the layouts of AMD's ISA documents.
#pragma once

#include <cstdint>
#include <cstring>

#include "emulated_math.hpp"
#include "tile/element.hpp"

namespace raggeddnn::hip {

namespace emulated_matrix {

template <class Element>
float element_of(const uint32_t* words, int i) {
    return Element::to_float(static_cast<uint16_t>(words[i / 2] >> (16 * (i % 2))));
}

// A 16 x 16 x 16 product. Operand: lane -> (row or column lane % 16, first k, count); the result's
// row of value i is `result_row(lane, i)`, its column lane % 16.
struct Lane {
    float* c;
    const uint32_t* a;
    const uint32_t* b;
};

template <class Element, class Layout>
void multiply(float* c, const uint32_t* a, const uint32_t* b) {
    Lane lane{c, a, b};
    emulation::Block::current().together(
        Layout::WAVE,
        [](void* const* lanes) {
            float rows[16][16];
            float columns[16][16];
            for (int l = 0; l < Layout::WAVE; ++l) {
                const auto* own = static_cast<const Lane*>(lanes[l]);
                for (int i = 0; i < Layout::INPUTS; ++i) {
                    const int k = Layout::first_k(l) + i;
                    rows[l % 16][k] = element_of<Element>(own->a, i);
                    columns[l % 16][k] = element_of<Element>(own->b, i);
                }
            }
            for (int l = 0; l < Layout::WAVE; ++l) {
                auto* own = static_cast<Lane*>(lanes[l]);
                for (int i = 0; i < Layout::OUTPUTS; ++i) {
                    float sum = own->c[i];
                    for (int k = 0; k < 16; ++k) {
                        sum += rows[Layout::result_row(l, i)][k] * columns[l % 16][k];
                    }
                    own->c[i] = sum;
                }
            }
        },
        &lane);
}

struct Cdna {
    static constexpr int WAVE = 64, INPUTS = 4, OUTPUTS = 4;
    static int first_k(int lane) { return 4 * (lane / 16); }
    static int result_row(int lane, int i) { return 4 * (lane / 16) + i; }
};
struct Rdna3 {
    static constexpr int WAVE = 32, INPUTS = 16, OUTPUTS = 8;
    static int first_k(int) { return 0; }
    static int result_row(int lane, int i) { return 2 * i + lane / 16; }
};
struct Rdna4 {
    static constexpr int WAVE = 32, INPUTS = 8, OUTPUTS = 8;
    static int first_k(int lane) { return 8 * (lane / 16); }
    static int result_row(int lane, int i) { return 8 * (lane / 16) + i; }
};

}  // namespace emulated_matrix

class BoundedMemory {
public:
    BoundedMemory(const void* data, uint32_t bytes)
        : data_(static_cast<const unsigned char*>(data)), bytes_(bytes) {}
    Chunk load(uint32_t offset) const {
        Chunk loaded{};
        if (offset < bytes_) std::memcpy(&loaded, data_ + offset, sizeof(loaded));
        return loaded;
    }

private:
    const unsigned char* data_;
    uint32_t bytes_;
};

template <class Element>
void mfma_16x16x16(float (&c)[4], const uint32_t* a, const uint32_t* b) {
    emulated_matrix::multiply<Element, emulated_matrix::Cdna>(c, a, b);
}
template <class Element>
void wmma_rdna3(float (&c)[8], const uint32_t (&a)[8], const uint32_t (&b)[8]) {
    emulated_matrix::multiply<Element, emulated_matrix::Rdna3>(c, a, b);
}
template <class Element>
void wmma_rdna4(float (&c)[8], const uint32_t (&a)[4], const uint32_t (&b)[4]) {
    emulated_matrix::multiply<Element, emulated_matrix::Rdna4>(c, a, b);
}

#if defined(RAGGEDDNN_EMULATE_CDNA)
inline constexpr int EMULATED_WAVE = 64;
#else
inline constexpr int EMULATED_WAVE = 32;
#endif

inline bool any_lane(bool is_true) { return any_of_wave<EMULATED_WAVE>(is_true); }

inline uint32_t high_halves(uint32_t low, uint32_t high) {
    return low >> 16 | (high & 0xffff0000U);
}

template <class T>
T shuffle_xor(T x, int mask) {
    return exchange<EMULATED_WAVE>(x, mask);
}

}  // namespace raggeddnn::hip
