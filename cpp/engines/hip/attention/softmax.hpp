// The running softmax of the rows that a lane has a part of. Scores are raw products; `factor` is
// scale * log2(e), never negative: a negative or zero scale is folded into the queries.
#pragma once

#include "device.hpp"

namespace raggeddnn::hip {

inline constexpr float LN_2 = 0.693147180559945309f;
inline constexpr float LOG2_E = 1.44269504088896341f;

template <class Tile>
struct RunningSoftmax {
    static constexpr float NOTHING = -__builtin_inff();
    static constexpr float HUGE = 1 << 20;
    // Where the largest score grows by less, in powers of 2, what was summed stays as it is:
    // weights and their sums have as many digits when they are some hundred times as large, and
    // floats have room for it (as in FlashAttention-4).
    static constexpr float GROWTH = 8;

    float peak[Tile::STATS];   // the largest score, or one that it has not outgrown
    float total[Tile::STATS];  // this lane's part of the sum of weights

    RAGGEDDNN_DEVICE void start() {
        for (int s = 0; s < Tile::STATS; ++s) {
            peak[s] = NOTHING;
            total[s] = 0;
        }
    }

    // Turns the scores of COUNT tiles, side by side, into weights. What was summed before them has
    // to be multiplied with keep[].
    template <int COUNT>
    RAGGEDDNN_DEVICE void weigh(typename Tile::Accumulator (&tiles)[COUNT], float factor,
                                float (&keep)[Tile::STATS]) {
        float highest[Tile::STATS];
        for (int s = 0; s < Tile::STATS; ++s) highest[s] = NOTHING;
#pragma unroll
        for (int t = 0; t < COUNT; ++t) {
#pragma unroll
            for (int i = 0; i < Tile::VALUES; ++i) {
                float& most = highest[Tile::stat_of(i)];
                most = larger(most, tiles[t].x[i]);
            }
        }
        float shift[Tile::STATS];
        bool is_huge = false;
#pragma unroll
        for (int s = 0; s < Tile::STATS; ++s) {
            const float most = larger(peak[s], Tile::row_max(highest[s]));
            const float now = (most - peak[s]) * factor <= GROWTH ? peak[s] : most;
            // A row that has seen no key yet: its weights become exp2(-inf), 0.
            const float base = now == NOTHING ? 0.0F : now;
            keep[s] = exp2_fast((peak[s] - base) * factor);
            peak[s] = now;
            shift[s] = base * factor;
            is_huge |= shift[s] > HUGE || shift[s] < -HUGE;
            total[s] *= keep[s];
        }
        if (any_lane(is_huge)) subtract_peak(tiles, shift);
#pragma unroll
        for (int t = 0; t < COUNT; ++t) {
#pragma unroll
            for (int i = 0; i < Tile::VALUES; ++i) {
                const int s = Tile::stat_of(i);
                const float weight = exp2_fast(__builtin_fmaf(tiles[t].x[i], factor, -shift[s]));
                tiles[t].x[i] = weight;
                total[s] += weight;
            }
        }
    }

    // Before the factor, where its product with the largest score would be rounded by so much that
    // no weight is right.
    template <int COUNT>
    RAGGEDDNN_DEVICE void subtract_peak(typename Tile::Accumulator (&tiles)[COUNT],
                                        float (&shift)[Tile::STATS]) const {
#pragma unroll
        for (int t = 0; t < COUNT; ++t) {
#pragma unroll
            for (int i = 0; i < Tile::VALUES; ++i) {
                const float most = peak[Tile::stat_of(i)];
                tiles[t].x[i] -= most == NOTHING ? 0.0F : most;
            }
        }
        for (int s = 0; s < Tile::STATS; ++s) shift[s] = 0;
    }

    // Once, at the end: 1 / the sum of weights (0 for a row that saw no key), and its log-sum-exp.
    RAGGEDDNN_DEVICE void finish(float factor, float (&inverse)[Tile::STATS],
                                 float (&log_sum)[Tile::STATS]) {
        for (int s = 0; s < Tile::STATS; ++s) {
            const float sum = Tile::row_sum(total[s]);
            const bool is_empty = peak[s] == NOTHING;
            inverse[s] = is_empty ? 0.0F : 1.0F / sum;
            log_sum[s] = is_empty ? NOTHING : (peak[s] * factor + log2_fast(sum)) * LN_2;
        }
    }
};

}  // namespace raggeddnn::hip
