// Sizes of the passes without matrix instructions: of every architecture the same, since its
// threads share the work in one way.
#pragma once

#include "../attention/plain_tile.hpp"

namespace raggeddnn::hip {

template <int WIDTH_>
struct PlainShape {
    static constexpr int WIDTH = WIDTH_;
    static constexpr const char* REASON =
        "4 x 4 sums a thread: eight multiplications for each load from shared memory";
};

}  // namespace raggeddnn::hip
