// Other dims and strides for one tensor, for one execute of a graph with overridable shapes.
#pragma once

#include <cstdint>
#include <vector>

namespace raggeddnn {

struct ShapeOverride {
    int64_t uid = 0;
    std::vector<int64_t> dims;
    std::vector<int64_t> strides;  // in elements
};

}  // namespace raggeddnn
