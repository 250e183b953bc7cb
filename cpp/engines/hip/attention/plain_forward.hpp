// Forward attention without matrix instructions, for operands, biases and dropout that forward.hpp
// does not read: the same algorithm in float.
#pragma once

#include "../tile/arch.hpp"
#include "pass_work.hpp"
#include "plain_head.hpp"
#include "plain_tile.hpp"
#include "tile_work.hpp"

namespace raggeddnn::hip {

// Element: Float32, Bfloat16 or Float16. Shape: WIDTH (of q, k, v at most, a multiple of
// PLAIN_SIZE).
template <class Arch_, class Element_, class Shape_>
struct PlainForward : ForwardWork {
    static constexpr bool IS_PLAIN = true;
    using Arch = Arch_;
    using Element = Element_;
    using Shape = Shape_;
    static constexpr int TILE_ROWS = PLAIN_SIZE;
    static constexpr int BLOCK_ROWS = PLAIN_SIZE;
    static constexpr int THREADS = PLAIN_THREADS;
    static constexpr int SLICES = Shape::WIDTH / PLAIN_SIZE;
    static constexpr int BLOCKS_AT_ONCE = plain_blocks_at_once(SLICES);

    using Shared = PlainShared<Sequence>;

    RAGGEDDNN_INLINE static void run(const ForwardParams& p, Shared& shared) {
        run_plain_tiles<PlainForward>(p, p.schedule, shared);
    }

    // A tile.
    RAGGEDDNN_DEVICE PlainForward(const ForwardParams& p, Shared& shared)
        : p_(p),
          shared_(shared),
          head_{p,
                shared.dropout,
                shared.at.mask,
                shared.at.sequence.valid_q,
                shared.at.work.batch,
                shared.at.work.head},
          first_row_(int64_t{shared.at.work.tile} * TILE_ROWS) {
        start_tile(shared.memory);
        for (int i = 0; i < PLAIN_EACH; ++i) {
            peak_[i] = HIDDEN;
            total_[i] = 0;
        }
    }

    template <class Source>
    RAGGEDDNN_DEVICE void compute(Source& source) {
        source.template find_next<0>();
        const Sequence& s = shared_.at.sequence;
        const auto queries = plain_rows<Element>(p_.q, s.q, head_.head, s.valid_q, p_.width);
        const auto keys = plain_rows<Element>(p_.k, s.k, head_.key_head(), s.valid_k, p_.width);
        const auto values =
            plain_rows<Element>(p_.v, s.v, head_.value_head(), s.valid_k, p_.value_width);
        for (int block = 0; block < shared_.at.blocks; ++block) {
            const int64_t first_key = shared_.at.first_column + int64_t{block} * PLAIN_SIZE;
            PlainSum lost;
            PlainSum tile =
                multiply_rows(shared_.memory, queries, first_row_, keys, first_key, lost);
            head_.score(tile, first_row_, first_key);
            weigh(tile, lost);
            head_.drop(tile, first_row_, first_key);
            write_weights(tile, shared_.memory);
            weigh_rows(shared_.memory, values, first_key, output_);
        }
    }

    // Rows of the tile that count get their results; the others, as far as something of the
    // tensor is theirs, get zeros and -inf.
    RAGGEDDNN_DEVICE void write() {
        const Sequence& s = shared_.at.sequence;
#pragma unroll
        for (int i = 0; i < PLAIN_EACH; ++i) {
            const float sum = plain_row_sum(total_[i]);
            const int64_t row = first_row_ + plain_row(i);
            // Every weight was 0 where no key was seen, and only there: the highest is 1.
            const bool has_result = row < s.valid_q && sum != 0;
            if (row < rows_to_write(p_.o, s.rows_q, p_.max_rows_q)) {
                write_plain_row<Element>(output_, i, has_result ? 1 / sum : 0.0F, p_.value_width,
                                         plain_target<Element>(p_.o, s.o, head_.head, row));
            }
            if (p_.stats.data && plain_column(0) == 0 &&
                row < rows_to_write(p_.stats, s.rows_q, p_.max_rows_q)) {
                *plain_target<Float32>(p_.stats, s.stats, head_.head, row) =
                    has_result ? peak_[i] + log2_fast(sum) * LN_2 : HIDDEN;
            }
        }
    }

private:
    // Of a score that is not so large that its digits mean nothing.
    RAGGEDDNN_DEVICE float rest_of(float lost) const {
        const float rest = lost * p_.scale;
        return rest < 1 && rest > -1 ? rest : 0.0F;
    }
    // Scores become weights, and what was summed before is scaled to them. `lost`: of the scores
    // before they were scaled.
    RAGGEDDNN_DEVICE void weigh(PlainSum& tile, const PlainSum& lost) {
#pragma unroll
        for (int i = 0; i < PLAIN_EACH; ++i) {
            float highest = HIDDEN;
#pragma unroll
            for (int j = 0; j < PLAIN_EACH; ++j) highest = larger(highest, tile.x[i][j]);
            const float now = larger(peak_[i], plain_row_max(highest));
            // A row that has seen no key yet: its weights become exp2(-inf), 0.
            const float base = now == HIDDEN ? 0.0F : now;
            const float keep = exp_of(peak_[i] - base);
            peak_[i] = now;
            total_[i] *= keep;
#pragma unroll
            for (int s = 0; s < SLICES; ++s) {
#pragma unroll
                for (int j = 0; j < PLAIN_EACH; ++j) output_[s].x[i][j] *= keep;
            }
#pragma unroll
            for (int j = 0; j < PLAIN_EACH; ++j) {
                const float weight = exp_of(tile.x[i][j] - base - rest_of(lost.x[i][j]));
                tile.x[i][j] = weight;
                total_[i] += weight;
            }
        }
    }

    const ForwardParams& p_;
    Shared& shared_;
    PlainHead<Element, false> head_;
    int64_t first_row_;
    float peak_[PLAIN_EACH];   // the largest score so far
    float total_[PLAIN_EACH];  // this thread's part of the sum of weights
    PlainSum output_[SLICES]{};
};

}  // namespace raggeddnn::hip
