// The PTX of Hopper's warp-group products, one function an instruction. (PTX ISA, "Asynchronous
// Warpgroup Level Matrix Instructions".)
#pragma once

#include <cstdint>

#include "nvidia_ptx.hpp"

#if defined(RAGGEDDNN_EMULATED_WAVE)
#include "emulated_hopper.hpp"
#else

namespace raggeddnn::hip {

// Shared memory that threads wrote is there for the products, once the threads meet at a barrier.
__device__ inline void fence_async_proxy() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Four 8 x 8 matrices; lanes 8i to 8i + 7 say where in the memory the rows of matrix i begin.
__device__ inline void stmatrix_x4(uint16_t* memory, int row, const uint32_t (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(
                     shared_address(memory) + 2 * row),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}

// What lanes of a wave wrote to shared memory is there for the others.
__device__ inline void meet_wave() { __syncwarp(); }

// Before the first product that reads or writes registers which the program has touched.
__device__ inline void warpgroup_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void warpgroup_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// All but the `newest` groups of products are done.
template <int newest>
__device__ inline void warpgroup_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(newest) : "memory");
}

// An operand in shared memory in the layout of 128-byte swizzles: groups of eight rows of 128
// bytes, 1024 bytes from group to group. `panel_bytes`: between panels of 64 columns, for operands
// whose columns are the product's.
struct MatrixDescriptor {
    uint32_t low;  // all that operands differ in

    __device__ uint64_t word() const {
        constexpr uint64_t STRIDE = 1024 >> 4;
        constexpr uint64_t SWIZZLE_128 = uint64_t{1} << 30;
        return (SWIZZLE_128 | STRIDE) << 32 | low;
    }
};
__device__ inline MatrixDescriptor matrix_descriptor(const uint16_t* memory, int panel_bytes) {
    const uint32_t address = (shared_address(memory) & 0x3ffffU) >> 4;
    return {address | static_cast<uint32_t>(panel_bytes >> 4) << 16};
}
// The operand so many elements on, a multiple of eight: cheaper than one made anew.
__device__ inline MatrixDescriptor moved(MatrixDescriptor descriptor, int elements) {
    return {descriptor.low + static_cast<uint32_t>(elements / 8)};
}

// Products of 64 rows by COLUMNS columns by 16, for one type of elements. The sums of a lane are
// the TILES tiles of 16 columns at c.
template <class Element, int TILES>
struct Wgmma;

// The eight registers of a tile, and the names of those of four tiles.
#define RAGGEDDNN_TILE(t)                                                                \
    "+f"(c[t].x[0]), "+f"(c[t].x[1]), "+f"(c[t].x[2]), "+f"(c[t].x[3]), "+f"(c[t].x[4]), \
        "+f"(c[t].x[5]), "+f"(c[t].x[6]), "+f"(c[t].x[7])
#define RAGGEDDNN_TILES_4(t) \
    RAGGEDDNN_TILE(t), RAGGEDDNN_TILE(t + 1), RAGGEDDNN_TILE(t + 2), RAGGEDDNN_TILE(t + 3)
#define RAGGEDDNN_NAMES_4                                                                    \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23," \
    "%24,%25,%26,%27,%28,%29,%30,%31"
#define RAGGEDDNN_NAMES_8                                                                   \
    RAGGEDDNN_NAMES_4                                                                       \
    ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52," \
    "%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"

// shared(): rows of a by rows of b, both in shared memory; registers(): a in registers, by columns
// of b. The inputs' names follow those of the sums. `adds` 0: c is not read.
#define RAGGEDDNN_WGMMA(ELEMENT, TYPE, TILES, COLUMNS, NAMES, I0, I1, I2, I3, I4, ...)             \
    template <>                                                                                    \
    struct Wgmma<ELEMENT, TILES> {                                                                 \
        template <class Accumulator>                                                               \
        __device__ static void shared(Accumulator* c, MatrixDescriptor a, MatrixDescriptor b,      \
                                      int adds) {                                                  \
            asm volatile("{.reg .pred p; setp.ne.b32 p, " I2                                       \
                         ", 0; wgmma.mma_async.sync.aligned.m64n" COLUMNS "k16.f32." TYPE "." TYPE \
                         " {" NAMES "}, " I0 ", " I1 ", p, 1, 1, 0, 0;}"                           \
                         : __VA_ARGS__                                                             \
                         : "l"(a.word()), "l"(b.word()), "r"(adds));                               \
        }                                                                                          \
        template <class Accumulator>                                                               \
        __device__ static void registers(Accumulator* c, const uint32_t (&a)[4],                   \
                                         MatrixDescriptor b) {                                     \
            asm volatile("wgmma.mma_async.sync.aligned.m64n" COLUMNS "k16.f32." TYPE "." TYPE      \
                         " {" NAMES "}, {" I0 "," I1 "," I2 "," I3 "}, " I4 ", 1, 1, 1, 1;"        \
                         : __VA_ARGS__                                                             \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.word()));             \
        }                                                                                          \
        /* After a wait: the compiler reads no sum before it. */                                   \
        template <class Accumulator>                                                               \
        __device__ static void hold(Accumulator* c) {                                              \
            asm volatile("" : __VA_ARGS__::"memory");                                              \
        }                                                                                          \
    };
RAGGEDDNN_WGMMA(Bfloat16, "bf16", 4, "64", RAGGEDDNN_NAMES_4, "%32", "%33", "%34", "%35", "%36",
                RAGGEDDNN_TILES_4(0))
RAGGEDDNN_WGMMA(Bfloat16, "bf16", 8, "128", RAGGEDDNN_NAMES_8, "%64", "%65", "%66", "%67", "%68",
                RAGGEDDNN_TILES_4(0), RAGGEDDNN_TILES_4(4))
RAGGEDDNN_WGMMA(Float16, "f16", 4, "64", RAGGEDDNN_NAMES_4, "%32", "%33", "%34", "%35", "%36",
                RAGGEDDNN_TILES_4(0))
RAGGEDDNN_WGMMA(Float16, "f16", 8, "128", RAGGEDDNN_NAMES_8, "%64", "%65", "%66", "%67", "%68",
                RAGGEDDNN_TILES_4(0), RAGGEDDNN_TILES_4(4))
#undef RAGGEDDNN_WGMMA
#undef RAGGEDDNN_NAMES_8
#undef RAGGEDDNN_NAMES_4
#undef RAGGEDDNN_TILES_4
#undef RAGGEDDNN_TILE

}  // namespace raggeddnn::hip

#endif
