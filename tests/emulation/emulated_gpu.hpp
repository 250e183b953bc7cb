// tile/gpu.hpp on the host.
#pragma once

#include <cstdint>

#include "wave.hpp"

#define RAGGEDDNN_KERNEL
#define RAGGEDDNN_SHARED

namespace raggeddnn::hip {

inline int thread_index() { return emulation::Block::current().lane_in_block(); }
inline int block_index() { return 0; }
inline int die_index() {  // any, at any time: numbers of all dies are to be taken in the end
    static int calls = 0;
    return calls++ % 8;
}
inline void block_barrier() { emulation::Block::current().barrier(); }
inline unsigned long long take_number(unsigned long long* counter) { return (*counter)++; }
inline int32_t add_shared(int32_t* counter, int32_t by) {
    const int32_t before = *counter;
    *counter += by;
    return before;
}
inline uint32_t lower(uint32_t* least, uint32_t to) {
    const uint32_t before = *least;
    *least = to < before ? to : before;
    return before;
}
inline int renewed_thread_index() { return thread_index(); }
template <class T>
const T& renewed(const T& parameters) {
    return parameters;
}
template <class T>
T kept(T value) {
    return value;
}
template <class T>
T load(const T* from) {
    return *from;
}
template <class T>
void store(T* to, T value) {
    *to = value;
}
template <class T>
T uniform(T value) {
    return value;
}

}  // namespace raggeddnn::hip
