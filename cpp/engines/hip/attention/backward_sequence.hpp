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
                                                                int64_t batch, Fault& fault) {
    BackwardSequence s{};
    place_operands(s, p, batch, fault);
    s.d_o = place(p.d_o, MetadataOf::D_O, batch, p.max_rows_q, s.rows_q, fault);
    s.d_stats = place(p.d_stats, MetadataOf::D_STATS, batch, p.max_rows_q, s.rows_q, fault);
    s.d_q = place(p.d_q, MetadataOf::D_Q, batch, p.max_rows_q, s.rows_q, fault);
    s.d_k = place(p.d_k, MetadataOf::D_K, batch, p.max_rows_k, s.rows_k, fault);
    s.d_v = place(p.d_v, MetadataOf::D_V, batch, p.max_rows_k, s.rows_k, fault);
    count_rows(s, p, batch, fault);
    return s;
}

}  // namespace raggeddnn::hip
