// Where one batch's rows are and how many count: all reads of offsets and lengths, once per tile.
// Metadata is what a caller wrote on the device, so it may be anything: every value is clamped to
// what the graph states, and a value that had to be clamped is flagged.
#pragma once

#include "device.hpp"
#include "params.hpp"

namespace raggeddnn::hip {

struct Sequence {
    int64_t q;  // first elements of the batch, head 0
    int64_t k;
    int64_t v;
    int64_t o;
    int64_t stats;
    int64_t rows_q;  // of the block, valid or not
    int64_t rows_k;
    int64_t valid_q;
    int64_t valid_k;
    bool is_faulty;
};

RAGGEDDNN_DEVICE inline int64_t read_index(const IndexArray& array, int64_t i) {
    if (array.is_64_bit) return static_cast<const int64_t*>(array.data)[i * array.stride];
    return static_cast<const int32_t*>(array.data)[i * array.stride];
}

RAGGEDDNN_DEVICE inline int64_t clamped(int64_t value, int64_t low, int64_t high, bool& is_faulty) {
    if (value < low || value > high) is_faulty = true;
    return value < low ? low : value > high ? high : value;
}

// Rows of a batch by the offsets of one of its tensors, `most` without offsets.
RAGGEDDNN_DEVICE inline int64_t rows_of(const RowTensor& tensor, int64_t batch, int64_t most,
                                        bool& is_faulty) {
    if (!tensor.offsets.data) return most;
    const int64_t begin = read_index(tensor.offsets, batch);
    const int64_t end = read_index(tensor.offsets, batch + 1);
    if (begin < 0 || (batch == 0 && begin != 0)) is_faulty = true;
    const int64_t elements = (end - begin) * tensor.multiplier;
    if (elements > 0 && elements % tensor.row_stride != 0) is_faulty = true;
    return begin < 0 ? 0 : clamped(elements / tensor.row_stride, 0, most, is_faulty);
}

RAGGEDDNN_DEVICE inline int64_t base_of(const RowTensor& tensor, int64_t batch) {
    if (!tensor.offsets.data) return batch * tensor.batch_stride;
    const int64_t begin = read_index(tensor.offsets, batch);
    return begin < 0 ? 0 : begin * tensor.multiplier;
}

RAGGEDDNN_DEVICE inline int64_t agreed(const RowTensor& tensor, int64_t batch, int64_t rows,
                                       int64_t most, bool& is_faulty) {
    if (!tensor.offsets.data) return rows;
    const int64_t own = rows_of(tensor, batch, most, is_faulty);
    if (own != rows) is_faulty = true;
    return own < rows ? own : rows;
}

// Rows of an output that something is written to: in a dense one all, whatever the batch has.
RAGGEDDNN_DEVICE inline int64_t rows_to_write(const RowTensor& output, int64_t rows, int64_t most) {
    return output.offsets.data ? rows : most;
}

RAGGEDDNN_DEVICE inline Sequence read_sequence(const AttentionParams& p, int64_t batch) {
    Sequence s{};
    s.rows_q = rows_of(p.q, batch, p.max_rows_q, s.is_faulty);
    s.rows_k = rows_of(p.k, batch, p.max_rows_k, s.is_faulty);
    s.valid_q = s.rows_q;
    s.valid_k = s.rows_k;
    if (p.lengths_q.data) {
        s.valid_q = clamped(read_index(p.lengths_q, batch), 0, s.rows_q, s.is_faulty);
    }
    if (p.lengths_k.data) {
        s.valid_k = clamped(read_index(p.lengths_k, batch), 0, s.rows_k, s.is_faulty);
    }
    s.q = base_of(p.q, batch);
    s.k = base_of(p.k, batch);
    s.v = base_of(p.v, batch);
    s.o = base_of(p.o, batch);
    if (p.stats.data) s.stats = base_of(p.stats, batch);
    // The other ragged tensors of a side must agree: the least of them holds for all.
    s.rows_k = agreed(p.v, batch, s.rows_k, p.max_rows_k, s.is_faulty);
    s.rows_q = agreed(p.o, batch, s.rows_q, p.max_rows_q, s.is_faulty);
    if (p.stats.data) s.rows_q = agreed(p.stats, batch, s.rows_q, p.max_rows_q, s.is_faulty);
    s.valid_q = s.valid_q < s.rows_q ? s.valid_q : s.rows_q;
    s.valid_k = s.valid_k < s.rows_k ? s.valid_k : s.rows_k;
    return s;
}

}  // namespace raggeddnn::hip
