// The compiled kernels without matrix instructions, of one type of elements.
#pragma once

#include "backward_instance.hpp"
#include "forward_instance.hpp"
#include "plain_passes.hpp"

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

// Then dBias, which reads what the first pass left.
template <class Passes>
const char* launch_plain_backward(const BackwardParams& p, void* stream) {
    using Bias = typename Passes::Bias;
    if (const char* error = launch_backward<Passes>(p, stream)) return error;
    if (!p.d_bias.data) return nullptr;
    const auto on = static_cast<gpu::Stream>(stream);
    const auto error = gpu::launch<false>(begin_bias_tiles<Bias>, 1, 1, 0, on, p);
    if (const char* reason = gpu::failure(error)) return reason;
    return launch_pass<Bias>(p, Bias::tiles(p.d_bias), on);
}

template <class Element, class Arch, int WIDTH>
BackwardKernel plain_backward_row() {
    using Passes = PlainBackwardPasses<Element, Arch, WIDTH>;
    return backward_facts<Passes>(launch_plain_backward<Passes>);
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
