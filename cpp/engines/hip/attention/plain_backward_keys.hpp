// dK and dV without matrix instructions, tile by tile of keys: a tile is one of dK or one of dV, as
// they may have different numbers of heads. It sums over the query heads of its group, and of each
// over the rows that see its keys, in that order.
#pragma once

#include "plain_backward.hpp"

namespace raggeddnn::hip {

// Element and Shape: as PlainForward's.
template <class Arch_, class Element_, class Shape_>
struct PlainBackwardKeys : KeyGradientWork {
    using Arch = Arch_;
    using Element = Element_;
    using Shape = Shape_;
    static constexpr int TILE_ROWS = PLAIN_SIZE;
    static constexpr int BLOCK_ROWS = PLAIN_SIZE;
    static constexpr int THREADS = PLAIN_THREADS;
    static constexpr int SLICES = Shape::WIDTH / PLAIN_SIZE;
    static constexpr int BLOCKS_AT_ONCE = plain_blocks_at_once(SLICES);

    using Shared = PlainShared<Sequence>;

    // Those of dK, then those of dV.
    RAGGEDDNN_EITHER static int64_t heads(const BackwardParams& p) {
        return int64_t{p.heads_k} + p.heads_v;
    }

    RAGGEDDNN_INLINE static void run(const BackwardParams& p, Shared& shared) {
        run_plain_tiles<PlainBackwardKeys>(p, p.schedule_k, shared);
    }

    // A tile.
    RAGGEDDNN_DEVICE PlainBackwardKeys(const BackwardParams& p, Shared& shared)
        : p_(p),
          shared_(shared),
          is_values_(shared.at.work.head >= p.heads_k),
          head_(is_values_ ? shared.at.work.head - p.heads_k : shared.at.work.head),
          first_key_(int64_t{shared.at.work.tile} * TILE_ROWS) {
        start_tile(shared.memory);
    }

    template <class Source>
    RAGGEDDNN_DEVICE void compute(Source& source) {
        source.template find_next<0>();
        const int64_t group = is_values_ ? p_.group_v : p_.group_k;
        for (int64_t head = head_ * group; head < (head_ + 1) * group; ++head) {
            for (int block = 0; block < shared_.at.blocks; ++block) {
                add_rows(head, shared_.at.first_column + int64_t{block} * PLAIN_SIZE);
            }
        }
    }

    // Valid rows get their gradients, the others that belong to the tensors get zeros.
    RAGGEDDNN_DEVICE void write() const {
        const Sequence& s = shared_.at.sequence;
        const RowTensor& tensor = is_values_ ? p_.d_v : p_.d_k;
        const float factor = is_values_ ? 1.0F : p_.scale;
#pragma unroll
        for (int i = 0; i < PLAIN_EACH; ++i) {
            const int64_t key = first_key_ + plain_row(i);
            if (key >= rows_to_write(tensor, s.rows_k, p_.max_rows_k)) continue;
            write_plain_row<Element>(
                sums_, i, key < s.valid_k ? factor : 0.0F, is_values_ ? p_.value_width : p_.width,
                plain_target<Element>(tensor, is_values_ ? s.d_v : s.d_k, head_, key));
        }
    }

private:
    RAGGEDDNN_DEVICE void add_rows(int64_t query_head, int64_t first_row) {
        const PlainBackwardHead<Element, true> head(
            {p_, shared_.dropout, shared_.at.mask, shared_.at.sequence.valid_k,
             shared_.at.work.batch, query_head},
            p_, shared_.at.sequence);
        PlainMemory& memory = shared_.memory;
        PlainTerms terms[PLAIN_EACH];
        head.read(first_row, terms);
        PlainSum tile = multiply_rows(memory, head.k(), first_key_, head.q(), first_row);
        PlainRows<Element> weighed = head.q();
        if (is_values_) {
            head.weigh(tile, first_key_, first_row, terms);
            head.drop(tile, first_key_, first_row);
            weighed = head.d_o();
        } else {
            PlainSum outputs = multiply_rows(memory, head.v(), first_key_, head.d_o(), first_row);
            head.differentiate(tile, outputs, first_key_, first_row, terms);
        }
        write_weights(tile, memory);
        weigh_rows(memory, weighed, first_row, sums_);
    }

    const BackwardParams& p_;
    Shared& shared_;
    bool is_values_;
    int64_t head_;  // of dK or dV
    int64_t first_key_;
    PlainSum sums_[SLICES]{};
};

}  // namespace raggeddnn::hip
