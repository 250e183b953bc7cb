// What an execute leaves of bad offsets and lengths: the first fault, for whoever asks later. The
// schedule kernel reads all of them and leaves it in the workspace; nobody waits for it.
#pragma once

#include "device.hpp"

namespace raggeddnn::hip {

// Whose offsets, or the lengths of which side; in the order in which a batch's are read.
enum class MetadataOf : int32_t {
    Q,
    O,
    STATS,
    K,
    V,
    D_O,
    D_STATS,
    D_Q,
    D_K,
    D_V,
    LENGTHS_Q,
    LENGTHS_K,
};

enum class FaultKind : int32_t {
    OFFSETS,  // [other, got) is no block that the batch may have
    ROWS,     // the block has `got` rows, those of the tensors before it `other`
    LENGTH,   // is `got`, the block has `other` rows
};

struct Fault {
    static constexpr uint32_t NO_BATCH = UINT32_MAX;

    uint32_t batch = NO_BATCH;  // none: there is no fault
    MetadataOf of{};
    FaultKind kind{};
    int64_t got = 0;
    int64_t other = 0;

    // The first one noted stays.
    RAGGEDDNN_DEVICE void note(const Fault& found) {
        if (batch == NO_BATCH) *this = found;
    }
};

struct FaultRecord {
    uint64_t owner;  // Schedule::owner of the execute that wrote it
    Fault first;     // by batch, then in the order of reading
};

}  // namespace raggeddnn::hip
