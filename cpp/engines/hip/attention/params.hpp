// What a kernel is given, by value: plain data, filled on the host from the graph's problem and the
// variant pack. Strides, offsets and multipliers count elements, lengths count rows.
#pragma once

#include <cstdint>

#include "faults.hpp"

namespace raggeddnn::hip {

// B + 1 offsets or B lengths in device memory; null: none.
struct IndexArray {
    const void* data;
    int64_t stride;
    bool is_64_bit;
};

// [B, H, S, D] in any strides; of a ragged tensor batch b starts at offsets[b] * multiplier.
struct RowTensor {
    void* data;
    int64_t batch_stride;
    int64_t head_stride;
    int64_t row_stride;
    IndexArray offsets;
    int64_t multiplier;
};

// The least and largest key of a row are row + diagonal - left and row + diagonal + right; both
// inclusive, OPEN where there is no bound.
struct Band {
    static constexpr int64_t OPEN = INT64_MAX / 4;
    int64_t left;
    int64_t right;
    bool is_bottom_right;
};

// What the schedule kernel leaves for the attention kernels of the same lengths.
struct Schedule {
    // First tile of each place in the order of work; B + 1 entries.
    int64_t* first_tile;
    int32_t* batch_of_place;  // the batch with the most keys comes first
    unsigned long long* next_work;
    FaultRecord* faults;
    uint64_t owner;  // of the record: a number of the plan's own
};

struct ForwardParams {
    RowTensor q;
    RowTensor k;
    RowTensor v;
    RowTensor o;
    RowTensor stats;  // data null: not wanted. Width 1
    IndexArray lengths_q;
    IndexArray lengths_k;
    Schedule schedule;
    Band band;
    int64_t max_rows_q;
    int64_t max_rows_k;
    int32_t batches;
    int32_t heads;
    int32_t heads_k;
    int32_t heads_v;
    int32_t width;        // of q and k
    int32_t value_width;  // of v and o
    float scale;
    // Rows of o and stats past the batch's rows, in tensors that are not ragged, are padding, too.
    bool is_o_dense;
    bool is_stats_dense;
};

}  // namespace raggeddnn::hip
