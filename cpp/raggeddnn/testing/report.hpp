// What a verification found: for each output how it compares and what was written around it, and
// what an engine did besides.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "raggeddnn/tensor/compare.hpp"
#include "raggeddnn/testing/graph_tensor_bundle.hpp"

namespace raggeddnn::testing {

struct RAGGEDDNN_API OutputReport {
    int64_t uid = 0;
    std::string name;
    SentinelReport comparison;
    // Elements of the memory that no index reaches (before the first, past the last offset, between
    // strides), yet the engine wrote to them.
    size_t overwritten = 0;
    int64_t first_overwritten = 0;  // its position from the first element; negative: before it
    double overwritten_value = 0;

    bool passed() const { return comparison.passed() && overwritten == 0; }
    std::string to_string() const;
};

struct RAGGEDDNN_API VerificationReport {
    std::string engine;
    std::vector<OutputReport> outputs;        // in the order of the graph's tensors
    std::vector<std::string> changed_inputs;  // that the engine wrote to
    bool changed_fp_environment = false;      // rounding, subnormals or traps, left so
    // Bytes beyond the workspace that the engine wrote to, and where, from its first byte.
    size_t workspace_size = 0;
    size_t overwritten_workspace = 0;
    int64_t first_overwritten_workspace = 0;

    bool passed() const;
    // What is wrong, one sentence each.
    std::vector<std::string> faults() const;
    std::string to_string() const;  // a line for each output and each other fault
};

// Counts what was written outside the tensor, whose memory was full of sentinels.
void find_overwritten(const GuardedTensor& guarded, OutputReport& report);

}  // namespace raggeddnn::testing
