// dQ without matrix instructions, tile by tile of queries. Leaves delta for the other passes.
#pragma once

#include "plain_backward.hpp"

namespace raggeddnn::hip {

// Element and Shape: as PlainForward's.
template <class Arch_, class Element_, class Shape_>
struct PlainBackwardQueries : QueryGradientWork {
    static constexpr bool IS_PLAIN = true;
    using Arch = Arch_;
    using Element = Element_;
    using Shape = Shape_;
    static constexpr int WIDTH = Shape::WIDTH;
    static constexpr int TILE_ROWS = PLAIN_SIZE;
    static constexpr int BLOCK_ROWS = PLAIN_SIZE;
    static constexpr int THREADS = PLAIN_THREADS;
    static constexpr int SLICES = WIDTH / PLAIN_SIZE;
    static constexpr int BLOCKS_AT_ONCE = plain_blocks_at_once(SLICES);

    using Shared = PlainShared<Sequence>;

    RAGGEDDNN_INLINE static void run(const BackwardParams& p, Shared& shared) {
        run_plain_tiles<PlainBackwardQueries>(p, p.schedule_q, shared);
    }

    // A tile.
    RAGGEDDNN_DEVICE PlainBackwardQueries(const BackwardParams& p, Shared& shared)
        : p_(p), shared_(shared), first_row_(int64_t{shared.at.work.tile} * TILE_ROWS) {
        start_tile(shared.memory);
    }

    template <class Source>
    RAGGEDDNN_DEVICE void compute(Source& source) {
        source.template find_next<0>();
        if (shared_.at.blocks <= 0) return;
        find_terms();
        PlainMemory& memory = shared_.memory;
        for (int block = 0; block < shared_.at.blocks; ++block) {
            const int64_t first_key = shared_.at.first_column + int64_t{block} * PLAIN_SIZE;
            const Head head = operands();
            PlainSum tile = multiply_rows(memory, head.q(), first_row_, head.k(), first_key);
            PlainSum outputs = multiply_rows(memory, head.d_o(), first_row_, head.v(), first_key);
            head.differentiate(tile, outputs, first_row_, first_key, terms_);
            write_weights(tile, memory);
            weigh_rows(memory, head.k(), first_key, sums_);
        }
    }

    // Valid rows get their gradients, the others that belong to the tensor get zeros.
    RAGGEDDNN_DEVICE void write() const {
        const Sequence& s = shared_.at.sequence;
#pragma unroll
        for (int i = 0; i < PLAIN_EACH; ++i) {
            const int64_t row = first_row_ + plain_row(i);
            if (row >= rows_to_write(p_.d_q, s.rows_q, p_.max_rows_q)) continue;
            write_plain_row<Element>(
                sums_, i, row < s.valid_q ? p_.scale : 0.0F, p_.width,
                plain_target<Element>(p_.d_q, s.d_q, shared_.at.work.head, row));
        }
    }

private:
    using Head = PlainBackwardHead<Element, false>;

    RAGGEDDNN_DEVICE Head operands() const {
        const auto& at = shared_.at;
        return Head(
            {p_, shared_.dropout, at.mask, at.sequence.valid_q, at.work.batch, at.work.head}, p_,
            at.sequence);
    }

    RAGGEDDNN_DEVICE void find_terms() {
        const Sequence& s = shared_.at.sequence;
        const Head head = operands();
        float sums[PLAIN_EACH];
        multiply_same_rows(shared_.memory, head.d_o(), head.o(), first_row_, sums);
        float* deltas = delta_of_head(p_, head.batch, head.head);
#pragma unroll
        for (int i = 0; i < PLAIN_EACH; ++i) {
            const int64_t row = first_row_ + plain_row(i);
            terms_[i] = {HIDDEN, 0};
            if (row >= s.valid_q) continue;
            float& delta = sums[i];
            if (p_.d_stats.data) {
                delta -= *plain_target<Float32>(p_.d_stats, s.d_stats, head.head, row);
            }
            terms_[i] = {*plain_target<Float32>(p_.stats, s.stats, head.head, row), delta};
            if (plain_column(0) == 0) deltas[row] = delta;
        }
    }

    const BackwardParams& p_;
    Shared& shared_;
    int64_t first_row_;
    PlainTerms terms_[PLAIN_EACH];
    PlainSum sums_[SLICES]{};
};

}  // namespace raggeddnn::hip
