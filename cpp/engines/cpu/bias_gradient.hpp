// The gradient of a bias, of any shape that broadcasts to the scores'. A task makes a tile of its
// own elements, and goes through all the heads, rows and keys that share them in one order.
#pragma once

#include <cstdint>
#include <functional>

#include "kernels.hpp"
#include "raggeddnn/plugin/sequences.hpp"
#include "raggeddnn/schema/sdpa_backward_problem.hpp"

namespace raggeddnn::cpu {

class BiasGradient {
public:
    // Describes a query head of a batch.
    using Describe = std::function<BackwardHead(int64_t batch, int64_t head)>;

    BiasGradient(const schema::SdpaBackwardProblem& problem, const KernelSet& kernels,
                 const plugin::Sequences& sequences, Describe describe, void* data);

    int64_t tiles() const { return tiles_; }
    // `sums`: CHUNK_KEYS times the gradients' least stride floats.
    void make_tile(int64_t tile, float* sums, void* scratch) const;

private:
    // Where a tile begins, in its own dims.
    struct Place {
        int64_t batch;
        int64_t head;
        int64_t row;
        int64_t key;
    };

    Place place_of(int64_t tile) const;
    void add_batch(int64_t batch, const Place& place, float* sums, void* scratch) const;
    void fold(float* sums) const;
    void write(const Place& place, const float* sums) const;

    const schema::SdpaBackwardProblem& problem_;
    const KernelSet& kernels_;
    const plugin::Sequences& sequences_;
    Describe describe_;
    void* data_;
    int64_t row_tiles_;
    int64_t key_tiles_;
    int64_t tiles_;
};

}  // namespace raggeddnn::cpu
