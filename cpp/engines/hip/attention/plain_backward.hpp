// The gradients of attention without matrix instructions, for operands, biases and dropout that
// matrix kernels do not read. With P = exp(score - stats) of the visible keys, F the factors of
// dropout (else 1), and delta = sum of dO * O over a row, less the gradient of its stats:
//     dV = (P F)^T dO,   dS = P (F dO V^T - delta),   dQ = scale dS K,   dK = scale dS^T Q,
// and dBias is dS. Here: what the passes share.
#pragma once

#include "../tile/arch.hpp"
#include "pass_work.hpp"
#include "plain_head.hpp"
#include "plain_tile.hpp"
#include "row_terms.hpp"
#include "tile_work.hpp"

namespace raggeddnn::hip {

// One row's, beside its operands.
struct PlainTerms {
    float log_sum;  // -inf: nothing of the row counts
    float delta;
};

RAGGEDDNN_DEVICE inline PlainTerms read_terms(const TermSource& source, int64_t row) {
    if (row >= source.rows) return {HIDDEN, 0};
    return {source.stats[row * source.stats_stride], source.delta[row]};
}

// All operands of one query head, and what products of them become.
template <class Element, bool IS_TURNED>
struct PlainBackwardHead : PlainHead<Element, IS_TURNED> {
    const BackwardParams& backward;
    const BackwardSequence& sequence;

    RAGGEDDNN_DEVICE PlainBackwardHead(const PlainHead<Element, IS_TURNED>& of,
                                       const BackwardParams& p, const BackwardSequence& s)
        : PlainHead<Element, IS_TURNED>(of), backward(p), sequence(s) {}

    // Found where they are used: all of them would take registers beside the sums.
    RAGGEDDNN_DEVICE PlainRows<Element> q() const {
        return plain_rows<Element>(backward.q, sequence.q, this->head, sequence.valid_q,
                                   backward.width);
    }
    RAGGEDDNN_DEVICE PlainRows<Element> k() const {
        return plain_rows<Element>(backward.k, sequence.k, this->key_head(), sequence.valid_k,
                                   backward.width);
    }
    RAGGEDDNN_DEVICE PlainRows<Element> v() const {
        return plain_rows<Element>(backward.v, sequence.v, this->value_head(), sequence.valid_k,
                                   backward.value_width);
    }
    RAGGEDDNN_DEVICE PlainRows<Element> o() const {
        return plain_rows<Element>(backward.o, sequence.o, this->head, sequence.valid_q,
                                   backward.value_width);
    }
    RAGGEDDNN_DEVICE PlainRows<Element> d_o() const {
        return plain_rows<Element>(backward.d_o, sequence.d_o, this->head, sequence.valid_q,
                                   backward.value_width);
    }

    // Of the thread's rows of the sequence in a tile.
    RAGGEDDNN_DEVICE void read(int64_t first_row, PlainTerms (&made)[PLAIN_EACH]) const {
        const TermSource terms = terms_of(backward, sequence, this->batch, this->head);
#pragma unroll
        for (int n = 0; n < PLAIN_EACH; ++n) {
            made[n] = read_terms(terms, first_row + (IS_TURNED ? plain_column(n) : plain_row(n)));
        }
    }

    // Products of queries and keys become probabilities.
    RAGGEDDNN_DEVICE void weigh(PlainSum& tile, int64_t first_row, int64_t first_column,
                                const PlainTerms (&of)[PLAIN_EACH]) const {
        this->score(tile, first_row, first_column);
#pragma unroll
        for (int i = 0; i < PLAIN_EACH; ++i) {
#pragma unroll
            for (int j = 0; j < PLAIN_EACH; ++j) {
                float& x = tile.x[i][j];
                const float log_sum = of[IS_TURNED ? j : i].log_sum;
                const bool is_hidden = x == HIDDEN || log_sum == HIDDEN;
                x = is_hidden ? 0 : exp_of(x - log_sum);
            }
        }
    }

    // They become dS, by way of `outputs`, the products of dO and values.
    RAGGEDDNN_DEVICE void differentiate(PlainSum& tile, PlainSum& outputs, int64_t first_row,
                                        int64_t first_column,
                                        const PlainTerms (&of)[PLAIN_EACH]) const {
        weigh(tile, first_row, first_column, of);
        this->drop(outputs, first_row, first_column);
#pragma unroll
        for (int i = 0; i < PLAIN_EACH; ++i) {
#pragma unroll
            for (int j = 0; j < PLAIN_EACH; ++j) {
                float& x = tile.x[i][j];
                // Where it is 0 the other operands may be anything.
                x = x == 0 ? 0 : x * (outputs.x[i][j] - of[IS_TURNED ? j : i].delta);
            }
        }
    }
};

}  // namespace raggeddnn::hip
