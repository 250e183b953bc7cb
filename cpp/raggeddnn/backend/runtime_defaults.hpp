// The opt-in override of runtime defaults (Graph slot 12): engines get such a tensor without its
// value, as a user-supplied scalar, and the backend supplies the default where the variant pack has
// none. So any provider that reads runtime scalars honours an override.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "raggeddnn/schema/blob.hpp"

namespace raggeddnn::backend {

struct RuntimeDefault {
    int64_t uid = 0;
    alignas(8) std::array<unsigned char, 8> bytes{};  // the value in the tensor's data type
};

// The defaults of a graph that opted in; none for any other graph.
std::vector<RuntimeDefault> read_runtime_defaults(const schema::Graph& graph);

// The graph as engines get it: those values and the opt-in removed. Throws NOT_SUPPORTED where that
// would lose slots that this version does not know.
schema::GraphBlob without_runtime_defaults(const schema::GraphBlob& graph);

}  // namespace raggeddnn::backend
