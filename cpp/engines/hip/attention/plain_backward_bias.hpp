// dBias, tile by tile of its own elements: dS, summed over batches, heads, rows and keys wherever
// the bias is broadcast along them, in that order. Elements past every length are exactly 0.
#pragma once

#include "plain_backward.hpp"

namespace raggeddnn::hip {

template <class Arch_, class Element_>
struct PlainBackwardBias {
    using Arch = Arch_;
    using Element = Element_;
    using Params = BackwardParams;
    static constexpr int THREADS = PLAIN_THREADS;
    static constexpr int BLOCKS_AT_ONCE = plain_blocks_at_once(1);

    struct Shared {
        PlainMemory memory;
        PlainDropout dropout;
        int64_t number;  // of the tile at hand
        // Of the batch at hand.
        BackwardSequence sequence;
        Mask mask;
    };

    // Tiles of elements; along an axis that is summed over there is one.
    RAGGEDDNN_HOST_DEVICE static int64_t tiles_along(int64_t extent) {
        return (extent + PLAIN_SIZE - 1) / PLAIN_SIZE;
    }
    RAGGEDDNN_HOST_DEVICE static int64_t tiles(const BiasGradient& d) {
        return d.batches * d.heads * tiles_along(d.rows) * tiles_along(d.keys);
    }

    RAGGEDDNN_INLINE static void run(const BackwardParams& p, Shared& shared) {
        if (thread_index() == 0) shared.dropout = read_dropout(p.dropout);
        while (true) {
            if (thread_index() == 0) {
                shared.number = static_cast<int64_t>(take_number(p.next_bias_tile));
            }
            block_barrier();
            if (shared.number >= tiles(p.d_bias)) return;
            PlainBackwardBias tile(p, shared);
            tile.compute();
            tile.write();
            block_barrier();
        }
    }

private:
    RAGGEDDNN_DEVICE PlainBackwardBias(const BackwardParams& p, Shared& shared)
        : p_(p), shared_(shared) {
        int64_t number = shared.number;
        key_tile_ = number % tiles_along(p.d_bias.keys);
        number /= tiles_along(p.d_bias.keys);
        row_tile_ = number % tiles_along(p.d_bias.rows);
        number /= tiles_along(p.d_bias.rows);
        head_ = number % p.d_bias.heads;
        batch_ = number / p.d_bias.heads;
    }

    RAGGEDDNN_DEVICE void compute() {
        const bool has_all_batches = p_.d_bias.batches == 1;
        const bool has_all_heads = p_.d_bias.heads == 1;
        const int64_t end_batch = has_all_batches ? p_.batches : batch_ + 1;
        const int64_t end_head = has_all_heads ? p_.heads : head_ + 1;
        for (int64_t batch = batch_; batch < end_batch; ++batch) {
            block_barrier();
            if (thread_index() == 0) {
                Fault known;  // the schedules report it
                shared_.sequence = read_backward_sequence(p_, batch, known);
                shared_.mask = make_mask(p_.band, shared_.sequence);
            }
            block_barrier();
            for (int64_t head = head_; head < end_head; ++head) add_head(batch, head);
        }
    }

    RAGGEDDNN_DEVICE void add_head(int64_t batch, int64_t head) {
        const int64_t rows = shared_.sequence.valid_q;
        const int64_t blocks = tiles_along(rows);
        const int64_t end = p_.d_bias.rows == 1 || row_tile_ >= blocks ? blocks : row_tile_ + 1;
        for (int64_t block = row_tile_; block < end; ++block) {
            const int64_t first_row = block * PLAIN_SIZE;
            const int64_t left = rows - first_row;
            BlockRange range = block_range(shared_.mask, first_row,
                                           left < PLAIN_SIZE ? left : PLAIN_SIZE, PLAIN_SIZE);
            if (p_.d_bias.keys != 1) {
                if (key_tile_ < range.begin || key_tile_ >= range.end) continue;
                range.begin = key_tile_;
                range.end = key_tile_ + 1;
            }
            for (int64_t keys = range.begin; keys < range.end; ++keys) {
                add_block(batch, head, first_row, keys * PLAIN_SIZE);
            }
        }
    }

    RAGGEDDNN_DEVICE void add_block(int64_t batch, int64_t query_head, int64_t first_row,
                                    int64_t first_key) {
        const PlainBackwardHead<Element, false> head(
            {p_, shared_.dropout, shared_.mask, shared_.sequence.valid_q, batch, query_head}, p_,
            shared_.sequence);
        PlainMemory& memory = shared_.memory;
        PlainTerms terms[PLAIN_EACH];
        head.read(first_row, terms);
        PlainSum tile = multiply_rows(memory, head.q(), first_row, head.k(), first_key);
        PlainSum outputs = multiply_rows(memory, head.d_o(), first_row, head.v(), first_key);
        head.differentiate(tile, outputs, first_row, first_key, terms);
#pragma unroll
        for (int i = 0; i < PLAIN_EACH; ++i) {
#pragma unroll
            for (int j = 0; j < PLAIN_EACH; ++j) sums_.x[i][j] += tile.x[i][j];
        }
    }

    // Sums over the tile's own rows and keys, where those are summed over, and the elements.
    RAGGEDDNN_DEVICE void write() {
        const BiasGradient& d = p_.d_bias;
        write_weights(sums_, shared_.memory);
        if (d.keys == 1) sum_up(PLAIN_SIZE, PLAIN_PITCH, 1);
        if (d.rows == 1) sum_up(d.keys == 1 ? 1 : PLAIN_SIZE, 1, PLAIN_PITCH);
        block_barrier();
        for (int i = thread_index(); i < PLAIN_SIZE * PLAIN_SIZE; i += THREADS) {
            const int row = i / PLAIN_SIZE;
            const int key = i % PLAIN_SIZE;
            write_element(row_tile_ * PLAIN_SIZE + row, key_tile_ * PLAIN_SIZE + key,
                          shared_.memory.weights[row * PLAIN_PITCH + key]);
        }
    }

    // Each of the first `count` lines' elements, `step` apart, into the line's first one.
    RAGGEDDNN_DEVICE void sum_up(int count, int line, int step) {
        block_barrier();
        if (thread_index() >= count) return;
        float* sums = shared_.memory.weights + thread_index() * line;
        float sum = 0;
        for (int n = 0; n < PLAIN_SIZE; ++n) sum += sums[n * step];
        *sums = sum;
    }

    RAGGEDDNN_DEVICE void write_element(int64_t row, int64_t key, float sum) const {
        const BiasGradient& d = p_.d_bias;
        if (row >= d.rows || key >= d.keys) return;
        const int64_t at = batch_ * d.batch_stride + head_ * d.head_stride + row * d.row_stride +
                           key * d.key_stride;
        if (d.is_float) {
            static_cast<float*>(d.data)[at] = sum;
        } else {
            static_cast<typename Element::Stored*>(d.data)[at] = Element::from_float(sum);
        }
    }

    const BackwardParams& p_;
    Shared& shared_;
    int64_t batch_;
    int64_t head_;
    int64_t row_tile_;
    int64_t key_tile_;
    PlainSum sums_{};
};

}  // namespace raggeddnn::hip
