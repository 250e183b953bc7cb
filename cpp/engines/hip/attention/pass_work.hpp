// What the tiles of each kind of pass are, for make_schedule() and run_tiles(): passes derive from
// these.
#pragma once

#include "backward_sequence.hpp"
#include "mask.hpp"
#include "params.hpp"
#include "sequence.hpp"

namespace raggeddnn::hip {

struct Work {
    int64_t batch;
    int32_t tile;
    int32_t head;
    int32_t head_k;  // of a tile of queries: whose keys and values it reads
    int32_t head_v;
    bool is_there;
};

// Tiles of queries, of either pass.
template <class Params_, class Sequence_>
struct QueryWork {
    using Params = Params_;
    using Sequence = Sequence_;
    static constexpr bool IS_LAST_FIRST = true;

    RAGGEDDNN_DEVICE static int64_t length(const Sequence& s) { return s.valid_k; }
    RAGGEDDNN_DEVICE static int64_t heads(const Params& p) { return p.heads; }
    // Of the keys and values that a head reads.
    RAGGEDDNN_DEVICE static float shares_of_head(const Params& p) {
        return 1.0F / static_cast<float>(p.group_k);
    }
    RAGGEDDNN_DEVICE static void find_heads(const Params& p, Work& work) {
        work.head_k = p.group_k == 1 ? work.head : work.head / p.group_k;
        work.head_v = p.group_v == 1 ? work.head : work.head / p.group_v;
    }
    RAGGEDDNN_DEVICE static Mask mask(const Params& p, const Sequence& s) {
        return make_mask(p.band, s);
    }
    RAGGEDDNN_DEVICE static int64_t valid_rows(const Sequence& s) { return s.valid_q; }
};

struct ForwardWork : QueryWork<ForwardParams, Sequence> {
    RAGGEDDNN_DEVICE static Sequence read(const ForwardParams& p, int64_t batch, Fault& fault) {
        return read_sequence(p, batch, fault);
    }
    RAGGEDDNN_DEVICE static int64_t rows(const ForwardParams& p, const Sequence& s) {
        const int64_t rows = rows_to_write(p.o, s.rows_q, p.max_rows_q);
        if (!p.stats.data) return rows;
        const int64_t stats = rows_to_write(p.stats, s.rows_q, p.max_rows_q);
        return stats > rows ? stats : rows;
    }
};

struct QueryGradientWork : QueryWork<BackwardParams, BackwardSequence> {
    RAGGEDDNN_DEVICE static Sequence read(const BackwardParams& p, int64_t batch, Fault& fault) {
        return read_backward_sequence(p, batch, fault);
    }
    RAGGEDDNN_DEVICE static int64_t rows(const BackwardParams& p, const Sequence& s) {
        return rows_to_write(p.d_q, s.rows_q, p.max_rows_q);
    }
};

// Tiles of keys, of the heads of K.
struct KeyGradientWork {
    using Params = BackwardParams;
    using Sequence = BackwardSequence;
    static constexpr bool IS_LAST_FIRST = false;

    RAGGEDDNN_DEVICE static Sequence read(const BackwardParams& p, int64_t batch, Fault& fault) {
        return read_backward_sequence(p, batch, fault);
    }
    RAGGEDDNN_DEVICE static int64_t rows(const BackwardParams& p, const Sequence& s) {
        const int64_t keys = rows_to_write(p.d_k, s.rows_k, p.max_rows_k);
        const int64_t values = rows_to_write(p.d_v, s.rows_k, p.max_rows_k);
        return keys > values ? keys : values;
    }
    RAGGEDDNN_DEVICE static int64_t length(const Sequence& s) { return s.valid_q; }
    RAGGEDDNN_EITHER static int64_t heads(const BackwardParams& p) { return p.heads_k; }
    // Of the queries that a head of K reads.
    RAGGEDDNN_DEVICE static float shares_of_head(const BackwardParams& p) {
        return static_cast<float>(p.group_k);
    }
    RAGGEDDNN_DEVICE static void find_heads(const BackwardParams&, Work&) {}
    RAGGEDDNN_DEVICE static Mask mask(const BackwardParams& p, const Sequence& s) {
        return exchanged(make_mask(p.band, s), s.valid_q);
    }
    RAGGEDDNN_DEVICE static int64_t valid_rows(const Sequence& s) { return s.valid_k; }
};

}  // namespace raggeddnn::hip
