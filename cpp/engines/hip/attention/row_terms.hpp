// What the backward passes need of each row of queries beside its elements: the log-sum-exp of its
// scores, and delta, the sum of dO * O less the gradient of its stats.
#pragma once

#include "../tile/gpu.hpp"
#include "backward_sequence.hpp"
#include "softmax.hpp"

namespace raggeddnn::hip {

// In base 2; +inf, which makes all weights 0, for a row that saw no key.
RAGGEDDNN_DEVICE inline float log_sum_of(float stat) {
    constexpr float NOTHING = -__builtin_inff();
    return stat == NOTHING ? -NOTHING : stat * LOG2_E;
}
inline constexpr float COUNTS_FOR_NOTHING = __builtin_inff();  // such a row's

// One head's terms.
struct TermSource {
    const float* stats;
    int64_t stats_stride;
    const float* delta;
    int64_t rows;  // valid ones
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

// Blocks of terms one after another, as the stages of rows bring theirs, into two places in turns.
// Each of the first 2 * ROWS threads brings one number.
template <int ROWS>
class TermStage {
public:
    RAGGEDDNN_DEVICE TermStage(const TermSource& source, int64_t first_row,
                               RowTerms<ROWS> (&memory)[2])
        : memory_(memory) {
        restart(source, first_row);
    }
    RAGGEDDNN_DEVICE void restart(const TermSource& source, int64_t first_row) {
        const int64_t row = first_row + row_in_block();
        step_ = is_log_sum() ? source.stats_stride : 1;
        next_ = (is_log_sum() ? source.stats : source.delta) + row * step_;
        step_ *= ROWS;
        rows_ = thread_index() < 2 * ROWS ? static_cast<int>(source.rows - row) : 0;
    }
    RAGGEDDNN_DEVICE void begin() {
        if (rows_ > 0) held_ = load(next_);
        next_ += step_;
        rows_ -= ROWS;
    }
    template <int PENDING>
    RAGGEDDNN_DEVICE void finish() {
        slot_ = 1 - slot_;
        const bool counts = rows_ + ROWS > 0;
        if (is_log_sum()) {
            memory_[slot_].log_sum[row_in_block()] =
                counts ? log_sum_of(held_) : COUNTS_FOR_NOTHING;
        } else if (thread_index() < 2 * ROWS) {
            memory_[slot_].delta[row_in_block()] = counts ? held_ : 0.0F;
        }
    }
    RAGGEDDNN_DEVICE const RowTerms<ROWS>& current() const { return memory_[slot_]; }

private:
    RAGGEDDNN_DEVICE static bool is_log_sum() { return thread_index() < ROWS; }
    RAGGEDDNN_DEVICE static int row_in_block() { return thread_index() % ROWS; }

    RowTerms<ROWS> (&memory_)[2];
    const float* next_;
    int64_t step_;
    int rows_;  // from there on that count
    int slot_ = 1;
    float held_ = 0;
};

}  // namespace raggeddnn::hip
