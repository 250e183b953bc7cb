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

// What is added to the scores, in float or in the type of the operands; data null: nothing. Axes
// that it is broadcast along have stride 0.
struct BiasTensor {
    void* data;
    int64_t batch_stride;
    int64_t head_stride;
    int64_t row_stride;
    int64_t key_stride;
    bool is_float;
};

// Its gradient, summed over the axes whose extent is 1.
struct BiasGradient : BiasTensor {
    int64_t batches;
    int64_t heads;
    int64_t rows;
    int64_t keys;
};

// A ragged output of which what no block covers is to be cleared; tensor.data null: nothing is.
struct ClearedOutput {
    RowTensor tensor;
    int64_t max_rows;
    int64_t bytes;          // that its memory holds
    int32_t element_bytes;  // 2 or 4
    uint32_t word;          // that all of it becomes
};

// In device memory, or where there is none a value.
struct RandomNumber {
    IndexArray memory;
    int64_t value;
};

struct DropoutParams {
    double probability;  // 0: none
    RandomNumber seed;
    RandomNumber offset;
};

// The least and largest key of a row are row + diagonal - left and row + diagonal + right; both
// inclusive, OPEN where there is no bound.
struct Band {
    static constexpr int64_t OPEN = INT64_MAX / 4;
    int64_t left;
    int64_t right;
    bool is_bottom_right;
};

// One batch's place in the order of work.
struct alignas(16) Place {
    int64_t first_tile;
    int32_t tiles;           // of each head
    int32_t heads_together;  // whose tiles take turns
    int64_t batch;
};

// Parts of a GPU that have caches of their own.
inline constexpr int MOST_DIES = 8;

// What the schedule kernel leaves for a pass over the same lengths. Batches are in the order of
// work: the one with the longest tiles comes first.
struct Schedule {
    Place* places;
    void* sequences;  // the pass's, of each place
    void* read;       // the same, of each batch but those that the schedule's threads keep
    // Of the tiles of one head of every batch, one after another.
    int32_t* place_of_tile;
    int64_t* tiles;  // how many
    // Of each die, for each of two passes over the same tiles.
    unsigned long long* next_work;
    FaultRecord* faults;
    uint64_t owner;  // of the record: a number of the plan's own
    // Which schedule is in the workspace, for executes to come, at its beginning and behind its
    // end; and where the other schedule is named that this pass overwrites, or null.
    uint64_t* made;
    uint64_t* made_behind;
    uint64_t* overwritten;
    uint64_t name;  // of all that it depends on but for the numbers in offsets and lengths
    bool is_taken;  // as it is, where it is there: those have not changed
};

// What both passes are given.
struct AttentionParams {
    RowTensor q;
    RowTensor k;
    RowTensor v;
    RowTensor o;
    RowTensor stats;  // data null: not wanted (forward). Width 1
    IndexArray lengths_q;
    IndexArray lengths_k;
    BiasTensor bias;
    DropoutParams dropout;
    Band band;
    int64_t max_rows_q;
    int64_t max_rows_k;
    int32_t batches;
    int32_t heads;
    int32_t heads_k;
    int32_t heads_v;
    int32_t group_k;  // heads of q that share one of k
    int32_t group_v;
    int32_t width;        // of q and k
    int32_t value_width;  // of v and o
    float scale;
    ClearedOutput cleared[3];
};

struct ForwardParams : AttentionParams {
    Schedule schedule;  // of tiles of queries
};

struct BackwardParams : AttentionParams {
    RowTensor d_o;
    RowTensor d_stats;  // data null: nothing flows back through stats
    RowTensor d_q;
    RowTensor d_k;
    RowTensor d_v;
    BiasGradient d_bias;  // data null: not wanted
    Schedule schedule_q;  // of tiles of queries
    Schedule schedule_k;  // of tiles of keys
    // Sum over a row of dO * O, less the gradient of its stats; B x H x max_rows_q.
    float* delta;
    unsigned long long* next_bias_tile;  // of those of d_bias
};

}  // namespace raggeddnn::hip
