// The PTX that the NVIDIA tile is made of, one function an instruction.
#pragma once

#include <cstdint>

#include "element.hpp"

#if defined(RAGGEDDNN_EMULATED_WAVE)
#include "emulated_nvidia.hpp"
#else

namespace raggeddnn::hip {

__device__ inline uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Four 8 x 8 matrices; lanes 8i to 8i + 7 say where in the memory the rows of matrix i begin.
template <bool IS_TRANSPOSED>
__device__ inline void ldmatrix_x4(uint32_t (&r)[4], const uint16_t* memory, int row) {
    const uint32_t address = shared_address(memory) + 2 * row;
    if constexpr (IS_TRANSPOSED) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(address));
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(address));
    }
}

// c[4] += a (16 x 16) times b (16 x 8).
template <class Element>
__device__ inline void mma_16816(float* c, const uint32_t (&a)[4], const uint32_t* b) {
    if constexpr (__is_same(Element, Bfloat16)) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
            "{%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    } else {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
            "{%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
}

// Two elements in a register, `low` first in memory.
template <class Element>
__device__ inline uint32_t pack(float low, float high) {
    uint32_t packed;
    if constexpr (__is_same(Element, Bfloat16)) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    } else {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    }
    return packed;
}

__device__ inline float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ inline float log2_fast(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ inline float larger(float a, float b) { return fmaxf(a, b); }

__device__ inline bool any_lane(bool is_true) { return __any_sync(0xffffffffU, is_true); }

template <class T>
__device__ inline T shuffle_xor(T x, int mask) {
    return __shfl_xor_sync(0xffffffffU, x, mask);
}

// 16 bytes to shared memory, or zeros, without looking at `from`; there when copies_done() returns.
__device__ inline void copy_async_16(uint16_t* memory, int at, const void* from, bool is_there) {
    const int bytes = is_there ? 16 : 0;
    const uint32_t address = shared_address(memory) + 2 * at;
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(bytes));
}
__device__ inline void copies_commit() { asm volatile("cp.async.commit_group;"); }
// All but the `newest` groups have arrived.
template <int newest>
__device__ inline void copies_done() {
    asm volatile("cp.async.wait_group %0;" ::"n"(newest) : "memory");
}

}  // namespace raggeddnn::hip

#endif
