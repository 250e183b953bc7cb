// Where one batch's gradients are, beside its sequence.
#pragma once

#include "sequence.hpp"

namespace raggeddnn::hip {

struct BackwardSequence : Sequence {
    int64_t d_o;  // first elements of the batch, head 0
    int64_t d_stats;
    int64_t d_q;
    int64_t d_k;
    int64_t d_v;
};

RAGGEDDNN_DEVICE inline BackwardSequence read_backward_sequence(const BackwardParams& p,
                                                                int64_t batch) {
    BackwardSequence s{};
    static_cast<Sequence&>(s) = read_sequence(p, batch);
    s.d_o = base_of(p.d_o, batch);
    s.d_q = base_of(p.d_q, batch);
    s.d_k = base_of(p.d_k, batch);
    s.d_v = base_of(p.d_v, batch);
    s.rows_q = agreed(p.d_o, batch, s.rows_q, p.max_rows_q, s.is_faulty);
    s.rows_q = agreed(p.d_q, batch, s.rows_q, p.max_rows_q, s.is_faulty);
    s.rows_k = agreed(p.d_k, batch, s.rows_k, p.max_rows_k, s.is_faulty);
    s.rows_k = agreed(p.d_v, batch, s.rows_k, p.max_rows_k, s.is_faulty);
    if (p.d_stats.data) {
        s.d_stats = base_of(p.d_stats, batch);
        s.rows_q = agreed(p.d_stats, batch, s.rows_q, p.max_rows_q, s.is_faulty);
    }
    s.valid_q = s.valid_q < s.rows_q ? s.valid_q : s.rows_q;
    s.valid_k = s.valid_k < s.rows_k ? s.valid_k : s.rows_k;
    return s;
}

}  // namespace raggeddnn::hip
