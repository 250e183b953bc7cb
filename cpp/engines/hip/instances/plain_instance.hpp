// The compiled kernels without matrix instructions, of one type of elements.
#pragma once

#include "../attention/plain_backward_bias.hpp"
#include "../attention/plain_backward_keys.hpp"
#include "../attention/plain_backward_queries.hpp"
#include "../attention/plain_forward.hpp"
#include "forward_instance.hpp"
#include "plain_shapes.hpp"

namespace raggeddnn::hip {

template <class Element, class... Arch>
ForwardRows plain_forward_rows_of(Archs<Arch...>) {
    static const ForwardKernel rows[] = {
        forward_row<PlainForward<Arch, Element, PlainShape<64>>>()...,
        forward_row<PlainForward<Arch, Element, PlainShape<128>>>()...,
        forward_row<PlainForward<Arch, Element, PlainShape<256>>>()...,
    };
    return rows;
}

// Every width, for each architecture of this build's vendor.
template <class Element>
ForwardRows plain_forward_rows() {
    return plain_forward_rows_of<Element>(AllArchs{});
}

template <class Pass>
__global__ void begin_bias_tiles(const RAGGEDDNN_GRID_CONSTANT BackwardParams params) {
    *params.next_bias_tile = 0;
}

// dQ first: it leaves delta for the others.
template <class Queries, class Keys, class Bias>
const char* launch_plain_backward(const BackwardParams& p, void* stream) {
    const auto on = static_cast<gpu::Stream>(stream);
    const int64_t tiles_q = tiles_of(p.max_rows_q, Queries::TILE_ROWS) * p.batches;
    const int64_t tiles_k = tiles_of(p.max_rows_k, Keys::TILE_ROWS) * p.batches;
    schedule_pass<Queries>(p, p.schedule_q, on);
    schedule_pass<Keys>(p, p.schedule_k, on);
    if (const char* error = launch_pass<Queries>(p, tiles_q * p.heads, on)) return error;
    if (const char* error = launch_pass<Keys>(p, tiles_k * Keys::heads(p), on)) return error;
    if (!p.d_bias.data) return nullptr;
    begin_bias_tiles<Bias><<<1, 1, 0, on>>>(p);
    return launch_pass<Bias>(p, Bias::tiles(p.d_bias), on);
}

template <class Element, class Arch, int WIDTH>
BackwardKernel plain_backward_row() {
    using Shape = PlainShape<WIDTH>;
    using Queries = PlainBackwardQueries<Arch, Element, Shape>;
    using Keys = PlainBackwardKeys<Arch, Element, Shape>;
    using Bias = PlainBackwardBias<Arch, Element>;
    return backward_facts<Queries, Keys>(Shape::REASON, launch_plain_backward<Queries, Keys, Bias>);
}

template <class Element, class... Arch>
BackwardRows plain_backward_rows_of(Archs<Arch...>) {
    static const BackwardKernel rows[] = {
        plain_backward_row<Element, Arch, 64>()...,
        plain_backward_row<Element, Arch, 128>()...,
        plain_backward_row<Element, Arch, 256>()...,
    };
    return rows;
}

template <class Element>
BackwardRows plain_backward_rows() {
    return plain_backward_rows_of<Element>(AllArchs{});
}

}  // namespace raggeddnn::hip
