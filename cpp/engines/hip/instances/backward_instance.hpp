// One compiled backward kernel: its entry points and how the host starts them.
#pragma once

#include "../attention/backward_keys.hpp"
#include "../attention/backward_queries.hpp"
#include "backward_shapes.hpp"
#include "launch.hpp"

namespace raggeddnn::hip {

// dQ first: it leaves delta for dK and dV.
template <class Queries, class Keys>
const char* launch_backward(const BackwardParams& params, void* stream) {
    const auto on = static_cast<gpu::Stream>(stream);
    const int64_t tiles_q = tiles_of(params.max_rows_q, Queries::TILE_ROWS) * params.batches;
    const int64_t tiles_k = tiles_of(params.max_rows_k, Keys::TILE_ROWS) * params.batches;
    schedule_pass<Queries>(params, params.schedule_q, on);
    schedule_pass<Keys>(params, params.schedule_k, on);
    if (const char* error = launch_pass<Queries>(params, tiles_q * params.heads, on)) return error;
    return launch_pass<Keys>(params, tiles_k * params.heads_k, on);
}

template <class Element, class Arch, int WIDTH>
BackwardKernel backward_row() {
    using Shape = BackwardShape<Arch, WIDTH>;
    using Queries = BackwardQueries<Arch, Element, typename Shape::Queries>;
    using Keys = BackwardKeys<Arch, Element, typename Shape::Keys>;
    return backward_facts<Queries, Keys>(Shape::REASON, launch_backward<Queries, Keys>);
}

template <class Element, int WIDTH, class... Arch>
BackwardRows backward_rows_of(Archs<Arch...>) {
    static const BackwardKernel rows[] = {backward_row<Element, Arch, WIDTH>()...};
    return rows;
}

// One row for each architecture of this build's vendor.
template <class Element, int WIDTH>
BackwardRows backward_rows() {
    return backward_rows_of<Element, WIDTH>(AllArchs{});
}

}  // namespace raggeddnn::hip
