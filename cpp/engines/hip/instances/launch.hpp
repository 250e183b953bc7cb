// How the host starts a pass: a kernel of as many blocks as run at once, which take tile after
// tile.
#pragma once

#include "../attention/clear.hpp"
#include "../attention/schedule.hpp"
#include "../kernels.hpp"
#include "../runtime.hpp"
#include "../tile/arch.hpp"
#include "rows.hpp"

namespace raggeddnn::hip {

template <class Pass>
__global__ void __launch_bounds__(Pass::THREADS, Pass::BLOCKS_AT_ONCE)
    run_pass(const RAGGEDDNN_GRID_CONSTANT typename Pass::Params params) {
    if constexpr (Pass::Arch::IS_COMPILED) {
        await_kernels_before();
#if defined(__CUDACC__)  // where more than 48 KB has to be asked for at the launch
        extern __shared__ __align__(1024) unsigned char raggeddnn_pass_shared[];
        // Kept, where threads have registers to spare: the compiler would else find it out again
        // behind each barrier, and not take what is computed from it for the same in all lanes.
        uint32_t at = shared_address(raggeddnn_pass_shared);
        if constexpr (Pass::THREADS <= 128) at = kept(at);
        Pass::run(params, *static_cast<typename Pass::Shared*>(__cvta_shared_to_generic(at)));
#else  // where the compiler plans with what it knows of
        __shared__ typename Pass::Shared shared;
        Pass::run(kernel_parameters<typename Pass::Params>(), shared);
#endif
    }
}

// Of threads, beside those that make schedules: as many as processors have room for at once, or
// nearly so.
inline constexpr int CLEAR_BLOCKS = 256;
inline unsigned clear_blocks(const AttentionParams& params) {
    for (const ClearedOutput& output : params.cleared) {
        if (output.tensor.data) return CLEAR_BLOCKS;
    }
    return 0;
}

// The first block makes the schedule, others clear outputs.
template <class Pass>
__global__ void __launch_bounds__(SCHEDULE_THREADS)
    run_schedule(const RAGGEDDNN_GRID_CONSTANT typename Pass::Params params,
                 const RAGGEDDNN_GRID_CONSTANT Schedule schedule) {
    if constexpr (Pass::Arch::IS_COMPILED) {
        __shared__ ScheduleShared shared;
        admit_kernel_behind();
        if (block_index() == 0) {
            make_schedule<Pass>(params, schedule, shared);
        } else {
            clear_outputs(params, block_index() - 1, CLEAR_BLOCKS, shared.counts[0][0]);
        }
    }
}

// The same of two passes over the same lengths, by a block each.
template <class First, class Second>
__global__ void __launch_bounds__(SCHEDULE_THREADS)
    run_schedules(const RAGGEDDNN_GRID_CONSTANT typename First::Params params,
                  const RAGGEDDNN_GRID_CONSTANT Schedule first,
                  const RAGGEDDNN_GRID_CONSTANT Schedule second) {
    if constexpr (First::Arch::IS_COMPILED) {
        __shared__ ScheduleShared shared;
        admit_kernel_behind();
        if (block_index() == 0) {
            make_schedule<First>(params, first, shared);
        } else if (block_index() == 1) {
            make_schedule<Second>(params, second, shared);
        } else {
            clear_outputs(params, block_index() - 2, CLEAR_BLOCKS, shared.counts[0][0]);
        }
    }
}

inline int64_t tiles_of(int64_t rows, int64_t tile_rows) {
    return (rows + tile_rows - 1) / tile_rows;
}

// `work`: tiles at most. Null, or the runtime's error text.
template <class Pass>
const char* launch_pass(const typename Pass::Params& params, int64_t work, gpu::Stream stream) {
    if (work == 0) return nullptr;
    const auto kernel = run_pass<Pass>;
    constexpr int SHARED = gpu::IS_SHARED_DYNAMIC ? sizeof(typename Pass::Shared) : 0;
    static gpu::ResidentBlocks resident;
    int most = 0;
    const auto check = []() -> const char* {
        if (device_arch() == std::string_view(Pass::Arch::NAME)) return nullptr;
        return "the plan was built for another architecture than this device's";
    };
    if (const char* error = resident.find(&most, kernel, Pass::THREADS, SHARED, check)) {
        return error;
    }
    const auto blocks = static_cast<unsigned>(work < most ? work : most);
    return gpu::failure(gpu::launch<Pass::Arch::WAITS_FOR_KERNELS>(kernel, blocks, Pass::THREADS,
                                                                   SHARED, stream, params));
}

}  // namespace raggeddnn::hip
