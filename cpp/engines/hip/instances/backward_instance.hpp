// One compiled backward kernel: its entry points and how the host starts them.
#pragma once

#include <vector>

#include "backward_passes.hpp"
#include "launch.hpp"

namespace raggeddnn::hip {

// dQ first: it leaves delta for dK and dV. `Passes`: Queries, Keys, and Values, which is void where
// Keys sums dV, too.
template <class Passes>
const char* launch_backward(const BackwardParams& params, void* stream) {
    using Queries = typename Passes::Queries;
    using Keys = typename Passes::Keys;
    using Values = typename Passes::Values;
    const auto on = static_cast<gpu::Stream>(stream);
    const int64_t tiles_q = tiles_of(params.max_rows_q, Queries::TILE_ROWS) * params.batches;
    const int64_t tiles_k = tiles_of(params.max_rows_k, Keys::TILE_ROWS) * params.batches;
    const auto error =
        gpu::launch<false>(run_schedules<Queries, Keys>, 2 + clear_blocks(params), SCHEDULE_THREADS,
                           0, on, params, params.schedule_q, params.schedule_k);
    if (const char* reason = gpu::failure(error)) return reason;
    if (const char* error = launch_pass<Queries>(params, tiles_q * params.heads, on)) return error;
    if constexpr (!__is_same(Values, void)) {
        if (const char* error = launch_pass<Values>(params, tiles_k * Values::heads(params), on)) {
            return error;
        }
    }
    return launch_pass<Keys>(params, tiles_k * Keys::heads(params), on);
}

template <class Element, class Arch, int WIDTH>
BackwardKernel backward_row() {
    using Passes = BackwardPasses<Element, Arch, WIDTH>;
    return backward_facts<Passes>(launch_backward<Passes>);
}

template <class Element, class Arch, int WIDTH>
void add_backward_row(std::vector<BackwardKernel>& rows) {
    if constexpr (requires { BackwardShape<Arch, WIDTH>::REASON; }) {
        rows.push_back(backward_row<Element, Arch, WIDTH>());
    }
}

template <class Element, int WIDTH, class... Arch>
std::vector<BackwardKernel> backward_rows_of(Archs<Arch...>) {
    std::vector<BackwardKernel> rows;
    (add_backward_row<Element, Arch, WIDTH>(rows), ...);
    return rows;
}

// One row for each architecture of this build's vendor that has kernels of this width.
template <class Element, int WIDTH>
BackwardRows backward_rows() {
    static const std::vector<BackwardKernel> rows = backward_rows_of<Element, WIDTH>(AllArchs{});
    return rows;
}

}  // namespace raggeddnn::hip
