// The passes of one backward kernel, and its row of the kernel table.
#pragma once

#include "../attention/backward_keys.hpp"
#include "../attention/backward_queries.hpp"
#include "backward_shapes.hpp"
#include "rows.hpp"

namespace raggeddnn::hip {

template <class Element, class Arch, class Shape>
struct PassOverKeys {
    using Type = BackwardKeys<Arch, Element, Shape>;
};
template <class Element, class Arch>
struct PassOverKeys<Element, Arch, void> {
    using Type = void;
};

template <class Element, class Arch, int WIDTH>
struct BackwardPasses {
    using Shape = BackwardShape<Arch, WIDTH>;
    using Queries = BackwardQueries<Arch, Element, typename Shape::Queries>;
    using Keys = typename PassOverKeys<Element, Arch, typename Shape::Keys>::Type;
    using Values = typename PassOverKeys<Element, Arch, typename Shape::Values>::Type;
};

template <class Passes>
BackwardKernel backward_facts(const char* (*launch)(const BackwardParams&, void*)) {
    using Queries = typename Passes::Queries;
    using Keys = typename Passes::Keys;
    return {{Queries::Arch::NAME, KIND_OF<typename Queries::Element>, Queries::WIDTH,
             Queries::TILE_ROWS, Queries::BLOCK_ROWS, Passes::Shape::REASON, IS_PLAIN<Queries>},
            Keys::TILE_ROWS,
            Keys::BLOCK_ROWS,
            launch};
}

}  // namespace raggeddnn::hip
