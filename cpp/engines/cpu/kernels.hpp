// What the engine's plans and its kernels say to each other: plain data, and one table of functions
// for each SIMD target. Kernels are compiled with the instructions of their target, so nothing
// here, and nothing that they include, may be a function that a linker could share with other code.
#pragma once

#include <stdint.h>

#include "raggeddnn/plugin/philox.hpp"

namespace raggeddnn::cpu {

enum class Element : uint8_t { FLOAT32, BFLOAT16, FLOAT16 };

constexpr int64_t bytes_of(Element element) { return element == Element::FLOAT32 ? 4 : 2; }

// One head of one sequence: row r begins `stride` elements after row r - 1, its elements lie side
// by side.
struct Rows {
    void* data;
    int64_t stride;
};

// Row r sees the keys c with r + first <= c <= r + last.
struct Band {
    int64_t first;
    int64_t last;
};

// Added to the scores of one head: element [row, key] lies at row * row_stride + key * key_stride.
struct BiasRows {
    const void* data;  // null: none
    int64_t row_stride;
    int64_t key_stride;
    Element element;
};

// Which probabilities of one head are dropped.
struct DropoutRows {
    bool is_on;
    int64_t batch;
    int64_t head;
    plugin::Dropout drawn;
};

// One query head of one sequence.
struct Head {
    Rows q;
    Rows k;
    Rows v;
    int64_t rows;  // valid ones
    int64_t keys;
    Band band;
    float scale;
    int32_t width;        // of q and k
    int32_t value_width;  // of v and o
    Element element;
    BiasRows bias;
    DropoutRows dropout;
};

struct ForwardHead : Head {
    Rows o;
    Rows stats;  // of floats; null data: none
};

struct BackwardHead : Head {
    Rows o;
    Rows d_o;
    int64_t d_o_step;  // from one of its elements to the next; others lie side by side
    Rows stats;
    Rows d_stats;  // null data: none
    Rows dq;
    // Where the gradient of q is summed over chunks of keys: dq itself where it holds floats. Null
    // data: the sequence has a single chunk.
    Rows dq_sums;
};

// The keys [begin, end) of a sequence that has `count` chunks of CHUNK_KEYS, this one being
// `index`.
struct KeyChunk {
    int64_t begin;
    int64_t end;
    int64_t index;
};

// The gradients of a chunk, summed over rows and heads: [end - begin][padded width] floats.
struct KeyGradients {
    float* dk;
    float* dv;
};

// Keys whose gradients one task of the backward pass sums up.
inline constexpr int64_t CHUNK_KEYS = 512;

// Sizes in bytes; memory that they state is aligned to MEMORY_ALIGNMENT.
struct KernelSet {
    const char* name;  // of the SIMD target
    // Rows that one panel holds: tasks that begin at a multiple of it waste nothing.
    int64_t panel_rows;
    int64_t forward_panels;  // at most, in one call

    int64_t (*forward_scratch)(int32_t width, int32_t value_width);
    // Rows [first, first + count), count at most panel_rows * forward_panels.
    void (*forward)(const ForwardHead& head, int64_t first, int64_t count, void* scratch);

    int64_t (*backward_scratch)(int32_t width, int32_t value_width);
    // Floats from one row of gradients to the next.
    int64_t (*gradient_stride)(int32_t width);
    // Adds what the panel that begins at row `first` gives to the gradients of the chunk, and its
    // part of dq.
    void (*backward_panel)(const BackwardHead& head, int64_t first, const KeyChunk& chunk,
                           const KeyGradients& sums, void* scratch);
    // Keys of a block of gradients of scores.
    int64_t block_keys;
    // Adds those of the panel that begins at row `first` at the block that begins at key `key`:
    // sums[(c - key) * panel_rows + r - first] for key c and row r.
    void (*add_score_gradients)(const BackwardHead& head, int64_t first, int64_t key, float* sums,
                                void* scratch);
    // Writes `count` rows of gradients, each element times `factor`.
    void (*store_gradients)(const float* sums, int64_t stride, float factor, Element element,
                            int32_t width, int64_t count, const Rows& to);
};

inline constexpr int64_t MEMORY_ALIGNMENT = 64;

}  // namespace raggeddnn::cpu
