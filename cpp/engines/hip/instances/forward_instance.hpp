// One compiled forward kernel: its entry points and how the host starts them.
#pragma once

#include "../attention/forward.hpp"
#include "launch.hpp"
#include "shapes.hpp"

namespace raggeddnn::hip {

template <class Pass>
const char* launch_forward(const ForwardParams& params, void* stream) {
    const auto on = static_cast<gpu::Stream>(stream);
    const int64_t tiles = tiles_of(params.max_rows_q, Pass::TILE_ROWS);
    const auto error = gpu::launch<false>(run_schedule<Pass>, 1 + clear_blocks(params),
                                          SCHEDULE_THREADS, 0, on, params, params.schedule);
    if (const char* reason = gpu::failure(error)) return reason;
    return launch_pass<Pass>(params, tiles * params.batches * params.heads, on);
}

template <class Pass>
ForwardKernel forward_row() {
    return {facts_of<Pass>(), launch_forward<Pass>};
}

template <class Element, int WIDTH, class... Arch>
ForwardRows forward_rows_of(Archs<Arch...>) {
    static const ForwardKernel rows[] = {
        forward_row<Forward<Arch, Element, ForwardShape<Arch, WIDTH>>>()...};
    return rows;
}

// One row for each architecture of this build's vendor.
template <class Element, int WIDTH>
ForwardRows forward_rows() {
    return forward_rows_of<Element, WIDTH>(AllArchs{});
}

}  // namespace raggeddnn::hip
