// Where a thread is, barriers and atomics: what both vendors spell differently.
#pragma once

#include <cstdint>

#include "../attention/device.hpp"

#if defined(RAGGEDDNN_EMULATED_WAVE)
#include "emulated_gpu.hpp"
#elif defined(__CUDACC__)

#define RAGGEDDNN_KERNEL __global__
#define RAGGEDDNN_SHARED __shared__
#define RAGGEDDNN_GRID_CONSTANT __grid_constant__

namespace raggeddnn::hip {
__device__ inline int thread_index() { return static_cast<int>(threadIdx.x); }
__device__ inline int block_index() { return static_cast<int>(blockIdx.x); }
__device__ inline int die_index() { return 0; }
__device__ inline void block_barrier() { __syncthreads(); }
__device__ inline unsigned long long take_number(unsigned long long* counter) {
    return atomicAdd(counter, 1ULL);
}
__device__ inline int32_t add_shared(int32_t* counter, int32_t by) {
    return atomicAdd(counter, by);
}
__device__ inline uint32_t lower(uint32_t* least, uint32_t to) { return atomicMin(least, to); }
template <class T>
__device__ T load(const T* from) {
    return *from;
}
template <class T>
__device__ void store(T* to, T value) {
    *to = value;
}
template <class T>
__device__ T uniform(T value) {
    return value;
}
// What the kernel before this one in the stream wrote is there when await_kernels_before()
// returns; blocks of a kernel launched to wait so may start once all of this one have called
// admit_kernel_behind(). (PTX ISA, griddepcontrol.)
__device__ inline void await_kernels_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ inline void admit_kernel_behind() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// The same as before, but not so that the compiler knows: what is computed from it then stays in
// the loop over tiles, instead of taking registers from its beginning to its end.
__device__ inline int renewed_thread_index() {
    int index;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
    return index;
}
template <class T>
__device__ const T& renewed(const T& parameters) {
    return parameters;
}
// A value that stays in a register, where the compiler would rather compute it again and again.
__device__ inline int kept(int value) {
    asm volatile("" : "+r"(value));
    return value;
}
__device__ inline uint32_t kept(uint32_t value) {
    return static_cast<uint32_t>(kept(static_cast<int>(value)));
}
}  // namespace raggeddnn::hip

#else

#define RAGGEDDNN_KERNEL __global__
#define RAGGEDDNN_SHARED __shared__
#define RAGGEDDNN_GRID_CONSTANT

namespace raggeddnn::hip {
__device__ inline int thread_index() { return static_cast<int>(__builtin_amdgcn_workitem_id_x()); }
__device__ inline int block_index() { return static_cast<int>(__builtin_amdgcn_workgroup_id_x()); }
// Which die the block runs on (HW_REG_XCC_ID of the CDNA 3 and 4 ISA documents).
__device__ inline int die_index() {
#if defined(__gfx942__) || defined(__gfx950__)
    constexpr int XCC_ID = 20;
    constexpr int FOUR_BITS = 3 << 11;
    return static_cast<int>(__builtin_amdgcn_s_getreg(XCC_ID | FOUR_BITS));
#else
    return 0;
#endif
}
__device__ inline void await_kernels_before() {}
__device__ inline void admit_kernel_behind() {}
__device__ inline void block_barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
__device__ inline unsigned long long take_number(unsigned long long* counter) {
    return __atomic_fetch_add(counter, 1ULL, __ATOMIC_RELAXED);
}
__device__ inline int32_t add_shared(int32_t* counter, int32_t by) {
    return __atomic_fetch_add(counter, by, __ATOMIC_RELAXED);
}
__device__ inline uint32_t lower(uint32_t* least, uint32_t to) {
    return __atomic_fetch_min(least, to, __ATOMIC_RELAXED);
}
// From and to device memory, which the compiler may not know a pointer to lead to: it would else
// ask LDS as well.
template <class T>
__device__ T load(const T* from) {
    using Word = const __attribute__((address_space(1))) uint32_t;
    static_assert(sizeof(T) % 4 == 0);
    uint32_t words[sizeof(T) / 4];
#pragma unroll
    for (size_t i = 0; i < sizeof(T) / 4; ++i) words[i] = ((Word*)from)[i];
    T value;
    __builtin_memcpy(&value, words, sizeof(T));
    return value;
}
template <class T>
__device__ void store(T* to, T value) {
    using Word = __attribute__((address_space(1))) uint32_t;
    if constexpr (sizeof(T) % 4 == 0) {
        uint32_t words[sizeof(T) / 4];
        __builtin_memcpy(words, &value, sizeof(T));
#pragma unroll
        for (size_t i = 0; i < sizeof(T) / 4; ++i) ((Word*)to)[i] = words[i];
    } else {
        *(__attribute__((address_space(1))) T*)to = value;
    }
}
// A value that is the same in the whole wave, which the compiler may not know: it then takes one
// scalar register, and branches on it are branches.
template <class T>
__device__ T uniform(T value) {
    static_assert(sizeof(T) % 4 == 0);
    int words[sizeof(T) / 4];
    __builtin_memcpy(words, &value, sizeof(T));
    for (int& word : words) word = __builtin_amdgcn_readfirstlane(word);
    __builtin_memcpy(&value, words, sizeof(T));
    return value;
}
// As above.
__device__ inline int renewed_thread_index() {
    int index = thread_index();
    asm volatile("" : "+v"(index));
    return index;
}
// A kernel's parameters, likewise.
template <class T>
__device__ const T& renewed(const T& parameters) {
    using Constant = const __attribute__((address_space(4))) T;
    auto* at = (Constant*)&parameters;
    asm volatile("" : "+s"(at));
    return *(const T*)at;
}
// Where they are: a copy that is passed on by reference would be in scratch memory.
template <class T>
__device__ const T& kernel_parameters() {
    return *(const T*)__builtin_amdgcn_kernarg_segment_ptr();
}
}  // namespace raggeddnn::hip

#endif
