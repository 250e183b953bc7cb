// The AMD instructions that the CDNA and RDNA tiles are made of, one function an instruction.
// (AMD Instinct MI300 and RDNA 3 and 4 ISA documents, "Matrix operations"; clang's AMDGPU
// builtins.)
#pragma once

#include <cstdint>

#include "element.hpp"

#if defined(RAGGEDDNN_EMULATED_WAVE)
#include "emulated_amd.hpp"
#else

namespace raggeddnn::hip {

namespace isa {
typedef float Float4 __attribute__((ext_vector_type(4)));
typedef float Float8 __attribute__((ext_vector_type(8)));
typedef short Short4 __attribute__((ext_vector_type(4)));
typedef short Short8 __attribute__((ext_vector_type(8)));
typedef short Short16 __attribute__((ext_vector_type(16)));
typedef _Float16 Half4 __attribute__((ext_vector_type(4)));
typedef _Float16 Half8 __attribute__((ext_vector_type(8)));
typedef _Float16 Half16 __attribute__((ext_vector_type(16)));
typedef __bf16 Bf8 __attribute__((ext_vector_type(8)));
typedef __bf16 Bf16x16 __attribute__((ext_vector_type(16)));
typedef int Int4 __attribute__((ext_vector_type(4)));

// The compiler's intrinsic by its name, since its builtin is younger than ROCm 6.
__device__ Int4 raw_buffer_load(Int4 resource, int offset, int scalar_offset,
                                int cache) __asm("llvm.amdgcn.raw.buffer.load.v4i32");
}  // namespace isa

// Memory from which loads beyond its end get zeros: a buffer resource, the same in the whole wave.
class BoundedMemory {
public:
    __device__ BoundedMemory(const void* data, uint32_t bytes) {
        const auto address = reinterpret_cast<uint64_t>(data);
#if defined(__GFX9__)
        constexpr int FORMAT = 0x00020000;  // 32 bits
#else
        constexpr int FORMAT = 0x31004000;  // 32 bits; bounds of raw buffers
#endif
        resource_ = {static_cast<int>(address), static_cast<int>(address >> 32 & 0xffff),
                     static_cast<int>(bytes), FORMAT};
    }
    // Of 16 bytes, all of them within the memory or none.
    __device__ Chunk load(uint32_t offset) const {
        const isa::Int4 loaded = isa::raw_buffer_load(resource_, static_cast<int>(offset), 0, 0);
        return __builtin_bit_cast(Chunk, loaded);
    }

private:
    isa::Int4 resource_;
};

// c += a b, 16 x 16 x 16. a: row lane % 16, columns 4 * (lane / 16) and the three after it; b
// likewise by columns; c: rows 4 * (lane / 16) + i, column lane % 16.
template <class Element>
__device__ inline void mfma_16x16x16(float (&c)[4], const uint32_t* a, const uint32_t* b) {
#if defined(__GFX9__)
    isa::Float4 sum = {c[0], c[1], c[2], c[3]};
    const uint64_t wide_a = a[0] | static_cast<uint64_t>(a[1]) << 32;
    const uint64_t wide_b = b[0] | static_cast<uint64_t>(b[1]) << 32;
    if constexpr (__is_same(Element, Bfloat16)) {
        sum = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(isa::Short4, wide_a),
                                                        __builtin_bit_cast(isa::Short4, wide_b),
                                                        sum, 0, 0, 0);
    } else {
        sum = __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(isa::Half4, wide_a),
                                                    __builtin_bit_cast(isa::Half4, wide_b), sum, 0,
                                                    0, 0);
    }
    for (int i = 0; i < 4; ++i) c[i] = sum[i];
#endif
}

struct Words8 {
    uint32_t w[8];
};
struct Words4 {
    uint32_t w[4];
};

// RDNA 3: a and b hold all 16 of the lane's row or column, the same in both halves of the wave;
// c: rows 2 * i + lane / 16, column lane % 16.
template <class Element>
__device__ inline void wmma_rdna3(float (&c)[8], const uint32_t (&a)[8], const uint32_t (&b)[8]) {
#if defined(__GFX11__)
    isa::Float8 sum;
    for (int i = 0; i < 8; ++i) sum[i] = c[i];
    Words8 wide_a, wide_b;
    for (int i = 0; i < 8; ++i) {
        wide_a.w[i] = a[i];
        wide_b.w[i] = b[i];
    }
    if constexpr (__is_same(Element, Bfloat16)) {
        sum = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(__builtin_bit_cast(isa::Short16, wide_a),
                                                          __builtin_bit_cast(isa::Short16, wide_b),
                                                          sum);
    } else {
        sum = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(
            __builtin_bit_cast(isa::Half16, wide_a), __builtin_bit_cast(isa::Half16, wide_b), sum);
    }
    for (int i = 0; i < 8; ++i) c[i] = sum[i];
#endif
}

// RDNA 4: a: row lane % 16, columns 8 * (lane / 16) and the seven after it; c: rows
// 8 * (lane / 16) + i, column lane % 16.
template <class Element>
__device__ inline void wmma_rdna4(float (&c)[8], const uint32_t (&a)[4], const uint32_t (&b)[4]) {
#if defined(__GFX12__)
    isa::Float8 sum;
    for (int i = 0; i < 8; ++i) sum[i] = c[i];
    Words4 wide_a, wide_b;
    for (int i = 0; i < 4; ++i) {
        wide_a.w[i] = a[i];
        wide_b.w[i] = b[i];
    }
    if constexpr (__is_same(Element, Bfloat16)) {
        sum = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(
            __builtin_bit_cast(isa::Short8, wide_a), __builtin_bit_cast(isa::Short8, wide_b), sum);
    } else {
        sum = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(
            __builtin_bit_cast(isa::Half8, wide_a), __builtin_bit_cast(isa::Half8, wide_b), sum);
    }
    for (int i = 0; i < 8; ++i) c[i] = sum[i];
#endif
}

__device__ inline float exp2_fast(float x) { return __builtin_amdgcn_exp2f(x); }

__device__ inline float log2_fast(float x) { return __builtin_amdgcn_logf(x); }
__device__ inline float larger(float a, float b) { return __builtin_fmaxf(a, b); }

// The upper halves of two words, one instruction.
__device__ inline uint32_t high_halves(uint32_t low, uint32_t high) {
    return __builtin_amdgcn_perm(high, low, 0x07060302U);
}

__device__ inline int wave_lane() {
    return static_cast<int>(__builtin_amdgcn_mbcnt_hi(~0U, __builtin_amdgcn_mbcnt_lo(~0U, 0U)));
}

__device__ inline bool any_lane(bool is_true) {
#if defined(__GFX9__)
    return __builtin_amdgcn_ballot_w64(is_true) != 0;
#else
    return __builtin_amdgcn_ballot_w32(is_true) != 0;
#endif
}
__device__ inline uint32_t shuffle_xor(uint32_t x, int mask) {
    return static_cast<uint32_t>(
        __builtin_amdgcn_ds_bpermute((wave_lane() ^ mask) * 4, static_cast<int>(x)));
}
__device__ inline float shuffle_xor(float x, int mask) {
    return float_of_bits(shuffle_xor(bits_of_float(x), mask));
}

}  // namespace raggeddnn::hip

#endif

namespace raggeddnn::hip {

// Two elements in a register, `low` first in memory. Of weights: neither negative nor NaN, so that
// rounding needs no care for either.
template <class Element>
RAGGEDDNN_DEVICE inline uint32_t pack(float low, float high) {
    if constexpr (__is_same(Element, Bfloat16)) {
#if defined(__gfx950__)  // which has an instruction for it
        typedef float Float2 __attribute__((ext_vector_type(2)));
        typedef __bf16 Bf2 __attribute__((ext_vector_type(2)));
        return __builtin_bit_cast(uint32_t, __builtin_convertvector(Float2{low, high}, Bf2));
#else
        return high_halves(bits_of_float(low) + 0x8000U, bits_of_float(high) + 0x8000U);
#endif
    } else {
        return Element::from_float(low) | static_cast<uint32_t>(Element::from_float(high)) << 16;
    }
}

}  // namespace raggeddnn::hip
