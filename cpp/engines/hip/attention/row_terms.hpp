// What the backward passes need of each row of queries beside its elements: the log-sum-exp of its
// scores, and delta, the sum of dO * O less the gradient of its stats.
#pragma once

#include "../tile/gpu.hpp"
#include "backward_sequence.hpp"
#include "softmax.hpp"

namespace raggeddnn::hip {

// One head's terms.
struct TermSource {
    const float* stats;
    int64_t stats_stride;
    const float* delta;
    int64_t rows;  // valid ones

    // In base 2; +inf, which makes all weights 0, of rows that count for nothing.
    RAGGEDDNN_DEVICE float log_sum(int64_t row) const {
        const float log_sum = row < rows ? stats[row * stats_stride] : NOTHING;
        return log_sum == NOTHING ? -NOTHING : log_sum * LOG2_E;
    }
    // Of a row whose log-sum-exp this is: one that counts for nothing may have none.
    RAGGEDDNN_DEVICE float delta_of(int64_t row, float log_sum) const {
        return log_sum == -NOTHING ? 0.0F : delta[row];
    }

    static constexpr float NOTHING = -__builtin_inff();
};

RAGGEDDNN_DEVICE inline float* delta_of_head(const BackwardParams& p, int64_t batch, int64_t head) {
    return p.delta + (batch * p.heads + head) * p.max_rows_q;
}

RAGGEDDNN_DEVICE inline TermSource terms_of(const BackwardParams& p, const BackwardSequence& s,
                                            int64_t batch, int64_t head) {
    return {static_cast<const float*>(p.stats.data) + s.stats + head * p.stats.head_stride,
            p.stats.row_stride, delta_of_head(p, batch, head), s.valid_q};
}

template <int ROWS>
struct RowTerms {
    float log_sum[ROWS];
    float delta[ROWS];
};

// Blocks of terms one after another, as the stages of rows bring theirs: `ROWS` at a time, by the
// first threads, into two places in turns.
template <int ROWS>
class TermStage {
public:
    RAGGEDDNN_DEVICE TermStage(const TermSource& source, int64_t first_row,
                               RowTerms<ROWS> (&memory)[2])
        : memory_(memory), source_(uniform(source)), row_(uniform(first_row)) {}
    RAGGEDDNN_DEVICE void restart(const TermSource& source, int64_t first_row) {
        source_ = uniform(source);
        row_ = uniform(first_row);
    }
    RAGGEDDNN_DEVICE void begin() {
        if (thread_index() < ROWS) {
            log_sum_ = source_.log_sum(row_ + thread_index());
            delta_ = source_.delta_of(row_ + thread_index(), log_sum_);
        }
        row_ += ROWS;
    }
    RAGGEDDNN_DEVICE void finish() {
        slot_ = 1 - slot_;
        if (thread_index() >= ROWS) return;
        memory_[slot_].log_sum[thread_index()] = log_sum_;
        memory_[slot_].delta[thread_index()] = delta_;
    }
    RAGGEDDNN_DEVICE const RowTerms<ROWS>& current() const { return memory_[slot_]; }

private:
    RowTerms<ROWS> (&memory_)[2];
    TermSource source_;
    int64_t row_;
    int slot_ = 1;
    float log_sum_ = 0;
    float delta_ = 0;
};

}  // namespace raggeddnn::hip
