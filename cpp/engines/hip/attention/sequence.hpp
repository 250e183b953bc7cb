// Where one batch's rows are and how many count: all reads of offsets and lengths.
// Metadata is what a caller wrote on the device, so it may be anything: a block whose offsets the
// graph does not allow counts as empty, a length is clamped to its block, and the tensors of a side
// have the rows of the shortest. How much memory a ragged tensor has, no graph states: offsets that
// it allows are followed, wherever they lead.
#pragma once

#include "device.hpp"
#include "faults.hpp"
#include "params.hpp"

namespace raggeddnn::hip {

inline constexpr int64_t UNKNOWN_ROWS = -1;
inline constexpr int64_t NO_BLOCK = -1;

struct alignas(16) Sequence {
    int64_t q;  // first elements of the batch, head 0
    int64_t k;
    int64_t v;
    int64_t o;
    int64_t stats;
    int64_t rows_q;  // of the block, valid or not
    int64_t rows_k;
    int64_t valid_q;
    int64_t valid_k;
};

RAGGEDDNN_DEVICE inline int64_t read_index(const IndexArray& array, int64_t i) {
    if (array.is_64_bit) return static_cast<const int64_t*>(array.data)[i * array.stride];
    return static_cast<const int32_t*>(array.data)[i * array.stride];
}

// rows_between() where offsets count less than rows. The product of dims and stride fits in 64
// bits, that of any two numbers may not.
RAGGEDDNN_COLD inline int64_t rows_of_parts(const RowTensor& tensor, int64_t batch, int64_t begin,
                                            int64_t end, int64_t most) {
    using Wide = __int128;
    const int64_t room = most * tensor.row_stride;
    if (Wide{begin} * tensor.multiplier > Wide{batch} * room) return NO_BLOCK;
    const Wide elements = Wide{end - begin} * tensor.multiplier;
    if (elements > room) return NO_BLOCK;
    const auto fitting = static_cast<int64_t>(elements);
    return fitting % tensor.row_stride == 0 ? fitting / tensor.row_stride : NO_BLOCK;
}

// Rows of the block [begin, end) of a ragged tensor, in stored offsets; NO_BLOCK for what cannot be
// the block of a batch of at most `most` rows.
RAGGEDDNN_DEVICE inline int64_t rows_between(const RowTensor& tensor, int64_t batch, int64_t begin,
                                             int64_t end, int64_t most) {
    if (begin < 0 || end < begin) return NO_BLOCK;
    if (tensor.multiplier != tensor.row_stride) {
        return rows_of_parts(tensor, batch, begin, end, most);
    }
    // The blocks before it have room for no more; before the first one is nothing.
    return begin <= batch * most && end - begin <= most ? end - begin : NO_BLOCK;
}

// The first element of a batch of one tensor. `rows`: of the side, by the tensors placed before it,
// which a dense tensor says nothing of.
RAGGEDDNN_DEVICE inline int64_t place(const RowTensor& tensor, MetadataOf of, int64_t batch,
                                      int64_t most, int64_t& rows, Fault& fault) {
    if (!tensor.offsets.data) return batch * tensor.batch_stride;
    const int64_t begin = read_index(tensor.offsets, batch);
    const int64_t end = read_index(tensor.offsets, batch + 1);
    // Without memory it has room for no rows.
    const int64_t own = rows_between(tensor, batch, begin, end, tensor.data ? most : 0);
    if (own == NO_BLOCK) {
        fault.note({static_cast<uint32_t>(batch), of, FaultKind::OFFSETS, end, begin});
        rows = 0;
        return 0;
    }
    if (rows != UNKNOWN_ROWS && own != rows) {
        fault.note({static_cast<uint32_t>(batch), of, FaultKind::ROWS, own, rows});
    }
    if (rows == UNKNOWN_ROWS || own < rows) rows = own;
    return begin * tensor.multiplier;
}

// Places the tensors of one side of a batch.
struct SidePlacer {
    int64_t batch;
    int64_t most;   // rows of a batch
    int64_t& rows;  // so far
    Fault& fault;

    RAGGEDDNN_DEVICE int64_t operator()(const RowTensor& tensor, MetadataOf of) const {
        return place(tensor, of, batch, most, rows, fault);
    }
    // `at`: where another one is. One whose batches lie alike is there, too: nothing is read.
    RAGGEDDNN_DEVICE int64_t operator()(const RowTensor& tensor, MetadataOf of,
                                        const RowTensor& other, int64_t at) const {
        const IndexArray& own = tensor.offsets;
        const bool is_alike =
            own.data == other.offsets.data && own.stride == other.offsets.stride &&
            own.is_64_bit == other.offsets.is_64_bit && tensor.multiplier == other.multiplier &&
            tensor.row_stride == other.row_stride && tensor.batch_stride == other.batch_stride &&
            !tensor.data == !other.data;
        return is_alike ? at : (*this)(tensor, of);
    }
};

// How many of a block's rows count.
RAGGEDDNN_DEVICE inline int64_t valid_rows(const IndexArray& lengths, MetadataOf of, int64_t batch,
                                           int64_t rows, Fault& fault) {
    if (!lengths.data) return rows;
    const int64_t length = read_index(lengths, batch);
    if (length >= 0 && length <= rows) return length;
    fault.note({static_cast<uint32_t>(batch), of, FaultKind::LENGTH, length, rows});
    return length < 0 ? 0 : rows;
}

// Rows of an output that something is written to: in a dense one all, whatever the batch has.
RAGGEDDNN_DEVICE inline int64_t rows_to_write(const RowTensor& output, int64_t rows, int64_t most) {
    return output.offsets.data ? rows : most;
}

// Where the operands of both passes are. Rows of a side stay unknown where all of it is dense.
RAGGEDDNN_DEVICE inline void place_operands(Sequence& s, const AttentionParams& p, int64_t batch,
                                            Fault& fault) {
    s.rows_q = s.rows_k = UNKNOWN_ROWS;
    const SidePlacer queries{batch, p.max_rows_q, s.rows_q, fault};
    const SidePlacer keys{batch, p.max_rows_k, s.rows_k, fault};
    s.q = queries(p.q, MetadataOf::Q);
    s.o = queries(p.o, MetadataOf::O, p.q, s.q);
    s.stats = queries(p.stats, MetadataOf::STATS);
    s.k = keys(p.k, MetadataOf::K);
    s.v = keys(p.v, MetadataOf::V, p.k, s.k);
}
// Once all tensors are placed.
RAGGEDDNN_DEVICE inline void count_rows(Sequence& s, const AttentionParams& p, int64_t batch,
                                        Fault& fault) {
    if (s.rows_q == UNKNOWN_ROWS) s.rows_q = p.max_rows_q;
    if (s.rows_k == UNKNOWN_ROWS) s.rows_k = p.max_rows_k;
    s.valid_q = valid_rows(p.lengths_q, MetadataOf::LENGTHS_Q, batch, s.rows_q, fault);
    s.valid_k = valid_rows(p.lengths_k, MetadataOf::LENGTHS_K, batch, s.rows_k, fault);
}

RAGGEDDNN_DEVICE inline Sequence read_sequence(const AttentionParams& p, int64_t batch,
                                               Fault& fault) {
    Sequence s{};
    place_operands(s, p, batch, fault);
    count_rows(s, p, batch, fault);
    return s;
}

}  // namespace raggeddnn::hip
