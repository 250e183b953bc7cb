// The gradients of attention, in double precision: what every other engine is measured against.
#pragma once

#include <optional>

#include "raggeddnn/plugin/philox.hpp"
#include "raggeddnn/plugin/sequences.hpp"
#include "raggeddnn/schema/sdpa_backward_problem.hpp"

namespace raggeddnn::reference {

// Null where the problem has no such operand, or where no element of it is touched.
struct SdpaBackwardMemory {
    const void* q = nullptr;
    const void* k = nullptr;
    const void* v = nullptr;
    const void* o = nullptr;
    const void* d_o = nullptr;
    const void* stats = nullptr;
    const void* d_stats = nullptr;
    const void* bias = nullptr;
    void* dq = nullptr;
    void* dk = nullptr;
    void* dv = nullptr;
    void* dbias = nullptr;
};

// With P = exp(score - stats) of the visible keys, F the factors of dropout (else 1), and
// D = sum of dO * O over a row:
//     dV = (P F)^T dO,   dS = P (F dO V^T - D + dStats),   dQ = scale dS K,   dK = scale dS^T Q.
// dBias is dS, summed over the axes along which bias is broadcast.
//
// Writes the valid rows of dq, dk and dv and nothing else; of dbias those elements that are not
// past the lengths of every batch they belong to. Rows that see no key are skipped and keys without
// queries get 0. Sums run over rows, then heads of a group, so that the bits of a sequence are the
// same in any batch.
void sdpa_backward(const schema::SdpaBackwardProblem& problem, double scale,
                   const plugin::Sequences& sequences, const SdpaBackwardMemory& memory,
                   const std::optional<plugin::Dropout>& dropout);

}  // namespace raggeddnn::reference
