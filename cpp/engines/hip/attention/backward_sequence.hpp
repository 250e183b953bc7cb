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
    const SidePlacer queries{batch, p.max_rows_q, s.rows_q, fault};
    const SidePlacer keys{batch, p.max_rows_k, s.rows_k, fault};
    s.d_o = queries(p.d_o, MetadataOf::D_O, p.o, s.o);
    s.d_stats = queries(p.d_stats, MetadataOf::D_STATS, p.stats, s.stats);
    s.d_q = queries(p.d_q, MetadataOf::D_Q, p.q, s.q);
    s.d_k = keys(p.d_k, MetadataOf::D_K, p.k, s.k);
    s.d_v = keys(p.d_v, MetadataOf::D_V, p.v, s.v);
    count_rows(s, p, batch, fault);
    return s;
}

}  // namespace raggeddnn::hip
