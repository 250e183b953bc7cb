// One compiled forward kernel: its entry points and how the host starts them.
#pragma once

#include <vector>

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

template <class Element, class Arch, int WIDTH>
void add_forward_row(std::vector<ForwardKernel>& rows) {
    if constexpr (requires { ForwardShape<Arch, WIDTH>::REASON; }) {
        rows.push_back(forward_row<Forward<Arch, Element, ForwardShape<Arch, WIDTH>>>());
    }
}

template <class Element, int WIDTH, class... Arch>
std::vector<ForwardKernel> forward_rows_of(Archs<Arch...>) {
    std::vector<ForwardKernel> rows;
    (add_forward_row<Element, Arch, WIDTH>(rows), ...);
    return rows;
}

// One row for each architecture of this build's vendor that has a kernel of this width.
template <class Element, int WIDTH>
ForwardRows forward_rows() {
    static const std::vector<ForwardKernel> rows = forward_rows_of<Element, WIDTH>(AllArchs{});
    return rows;
}

}  // namespace raggeddnn::hip
