// Scalar instructions and lane exchanges that every emulated target has.
#pragma once

#include <cmath>
#include <cstdint>

#include "wave.hpp"

namespace raggeddnn::hip {

inline float exp2_fast(float x) { return std::exp2(x); }
inline float log2_fast(float x) { return std::log2(x); }
inline float larger(float a, float b) { return std::fmax(a, b); }

template <int WAVE, class T>
T exchange(T x, int mask) {
    struct Lane {
        T value;
        int mask;
        T result;
    } lane{x, mask, x};
    emulation::Block::current().together(
        WAVE,
        [](void* const* lanes) {
            for (int i = 0; i < WAVE; ++i) {
                auto* own = static_cast<Lane*>(lanes[i]);
                own->result = static_cast<Lane*>(lanes[(i ^ own->mask) % WAVE])->value;
            }
        },
        &lane);
    return lane.result;
}

template <int WAVE>
bool any_of_wave(bool is_true) {
    bool lane = is_true;
    emulation::Block::current().together(
        WAVE,
        [](void* const* lanes) {
            bool any = false;
            for (int i = 0; i < WAVE; ++i) any |= *static_cast<const bool*>(lanes[i]);
            for (int i = 0; i < WAVE; ++i) *static_cast<bool*>(lanes[i]) = any;
        },
        &lane);
    return lane;
}

}  // namespace raggeddnn::hip
