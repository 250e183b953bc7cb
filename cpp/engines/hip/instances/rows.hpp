// A row of the kernel tables, out of a pass.
#pragma once

#include "../kernels.hpp"
#include "../tile/element.hpp"

namespace raggeddnn::hip {

template <class Element>
inline constexpr ElementKind KIND_OF = ElementKind::BFLOAT16;
template <>
inline constexpr ElementKind KIND_OF<Float16> = ElementKind::FLOAT16;

template <>
inline constexpr ElementKind KIND_OF<Float32> = ElementKind::FLOAT32;

template <class Pass>
inline constexpr bool IS_PLAIN = requires { Pass::IS_PLAIN; };

template <class Pass>
KernelFacts facts_of() {
    using Shape = typename Pass::Shape;
    return {Pass::Arch::NAME, KIND_OF<typename Pass::Element>,
            Shape::WIDTH,     Pass::TILE_ROWS,
            Pass::BLOCK_ROWS, Shape::REASON,
            IS_PLAIN<Pass>};
}

}  // namespace raggeddnn::hip
