// Attention, forward, in double precision: what every other engine is measured against.
#pragma once

#include <optional>

#include "raggeddnn/plugin/philox.hpp"
#include "raggeddnn/plugin/sequences.hpp"
#include "raggeddnn/schema/sdpa_problem.hpp"

namespace raggeddnn::reference {

// Null where the problem has no such operand, or where no element of it is touched.
struct SdpaMemory {
    const void* q = nullptr;
    const void* k = nullptr;
    const void* v = nullptr;
    const void* bias = nullptr;
    void* o = nullptr;
    void* stats = nullptr;
};

// Writes the valid rows of o and stats and nothing else; reads valid rows of q, k and v only. Every
// row is computed in an order that depends on its own sequence alone, so that its bits are the same
// in any batch. Dropout is of the probabilities after the softmax: stats do not see it.
void sdpa_forward(const schema::SdpaProblem& problem, double scale,
                  const plugin::Sequences& sequences, const SdpaMemory& memory,
                  const std::optional<plugin::Dropout>& dropout);

}  // namespace raggeddnn::reference
