// One compiled forward kernel: its entry points and how the host starts them.
#pragma once

#include "../attention/forward.hpp"
#include "../kernels.hpp"
#include "../runtime.hpp"
#include "shapes.hpp"

namespace raggeddnn::hip {

template <class Shape>
__global__ void __launch_bounds__(SCHEDULE_THREADS)
    schedule_kernel(const RAGGEDDNN_GRID_CONSTANT ForwardParams params) {
    __shared__ int counts[SCHEDULE_BUCKETS];
    make_schedule<Shape::TILE_ROWS>(params, counts);
}

template <class Element, class Shape>
__global__ void __launch_bounds__(Forward<Nvidia, Element, Shape>::THREADS)
    forward_kernel(const RAGGEDDNN_GRID_CONSTANT ForwardParams params) {
    using Pass = Forward<Nvidia, Element, Shape>;
    extern __shared__ __align__(16) unsigned char raggeddnn_forward_shared[];
    Pass::run(params, *reinterpret_cast<typename Pass::Shared*>(raggeddnn_forward_shared));
}

template <class Element, class Shape>
const char* launch_forward(const ForwardParams& params, void* stream) {
    using Pass = Forward<Nvidia, Element, Shape>;
    const auto kernel = forward_kernel<Element, Shape>;
    constexpr int SHARED = sizeof(typename Pass::Shared);
    static gpu::ResidentBlocks resident;
    int most = 0;
    if (const auto error = resident.find(&most, kernel, Pass::THREADS, SHARED)) {
        return gpu::text_of(error);
    }
    // As many blocks as run at once; they take tile after tile.
    const int64_t tiles = (params.max_rows_q + Shape::TILE_ROWS - 1) / Shape::TILE_ROWS;
    const int64_t work = tiles * params.batches * params.heads;
    const int64_t blocks = work < most ? work : most;
    const auto on = static_cast<gpu::Stream>(stream);
    schedule_kernel<Shape><<<1, SCHEDULE_THREADS, 0, on>>>(params);
    kernel<<<static_cast<unsigned>(blocks), Pass::THREADS, SHARED, on>>>(params);
    const auto error = gpu::last_error();
    return error == gpu::SUCCESS ? nullptr : gpu::text_of(error);
}

template <class Element, class Shape>
ForwardKernel forward_row(ElementKind kind) {
    return {kind,
            Shape::WIDTH,
            Shape::TILE_ROWS,
            Shape::BLOCK_KEYS,
            Shape::REASON,
            launch_forward<Element, Shape>};
}

}  // namespace raggeddnn::hip
