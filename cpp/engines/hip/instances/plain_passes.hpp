// The passes without matrix instructions.
#pragma once

#include "../attention/plain_backward_bias.hpp"
#include "../attention/plain_backward_keys.hpp"
#include "../attention/plain_backward_queries.hpp"
#include "../attention/plain_forward.hpp"
#include "plain_shapes.hpp"

namespace raggeddnn::hip {

template <class Element, class Arch, int WIDTH>
struct PlainBackwardPasses {
    using Shape = PlainShape<WIDTH>;
    using Queries = PlainBackwardQueries<Arch, Element, Shape>;
    using Keys = PlainBackwardKeys<Arch, Element, Shape>;
    using Values = void;
    using Bias = PlainBackwardBias<Arch, Element>;
};

}  // namespace raggeddnn::hip
