#include "regions.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "raggeddnn/plugin/sequences.hpp"

namespace raggeddnn::reference {

namespace {

using plugin::Buffers;
using plugin::IndexReader;
using schema::Operand;

constexpr int64_t UNKNOWN = -1;

// Reads the offsets of ragged operands, which must agree in the rows of every batch.
class RowReader {
public:
    RowReader(std::string_view op, size_t batches) : op_(op), rows_(batches, UNKNOWN) {}

    std::vector<int64_t> bases_of(const Operand& operand, const Buffers& buffers) {
        const schema::RaggedOffsets& ragged = *operand.ragged;
        const IndexReader offsets(ragged.offsets, buffers);
        if (offsets[0] != 0) refuse(ragged, 0, offsets[0], "0");
        std::vector<int64_t> bases;
        for (size_t b = 0; b < rows_.size(); ++b) {
            const auto index = static_cast<int64_t>(b);
            const int64_t begin = offsets[index];
            const int64_t end = offsets[index + 1];
            const int64_t rows = rows_between(operand, index + 1, begin, end);
            if (rows_[b] != UNKNOWN && rows_[b] != rows) {
                refuse(ragged, index + 1, end,
                       message("a block of ", rows_[b], " rows as in the other ragged tensors"));
            }
            rows_[b] = rows;
            bases.push_back(begin * ragged.multiplier);
        }
        return bases;
    }

    int64_t rows(size_t batch) const { return rows_[batch]; }

private:
    int64_t rows_between(const Operand& operand, int64_t index, int64_t begin, int64_t end) const {
        const schema::RaggedOffsets& ragged = *operand.ragged;
        if (end < begin) {
            refuse(ragged, index, end, message("at least ", begin, ", the offset before"));
        }
        const auto bytes = static_cast<int64_t>((bits_of(operand.type) + 7) / 8);
        const int64_t most = std::numeric_limits<int64_t>::max() / bytes / ragged.multiplier;
        if (end > most) refuse(ragged, index, end, message("at most ", most));
        const int64_t row = operand.strides[schema::SEQUENCE_AXIS];
        const int64_t elements = (end - begin) * ragged.multiplier;
        if (elements % row != 0) {
            refuse(ragged, index, end, message("a block of whole rows of ", row, " elements"));
        }
        const int64_t max_rows = operand.dims[schema::SEQUENCE_AXIS];
        if (elements / row > max_rows) {
            refuse(ragged, index, end, message("at most ", max_rows, " rows, as dims say"));
        }
        return elements / row;
    }

    [[noreturn]] void refuse(const schema::RaggedOffsets& ragged, int64_t index, int64_t got,
                             const std::string& expected) const {
        invalid("[", op_, "] ", ragged.offsets.label, ": index ", index, " is ", got, ", expected ",
                expected);
    }

    std::string_view op_;
    std::vector<int64_t> rows_;
};

}  // namespace

std::vector<Region> regions_of(std::string_view op, const Dims& dims,
                               const std::vector<const Operand*>& operands,
                               const Buffers& buffers) {
    const bool is_ragged = std::any_of(operands.begin(), operands.end(),
                                       [](const Operand* o) { return o->ragged.has_value(); });
    if (!is_ragged) return {{dims, std::vector<int64_t>(operands.size(), 0), 0}};
    const auto batches = static_cast<size_t>(dims[schema::BATCH_AXIS]);
    RowReader reader(op, batches);
    std::vector<Region> regions(batches);
    for (size_t b = 0; b < batches; ++b) {
        regions[b].dims = dims;
        regions[b].batch = static_cast<int64_t>(b);
    }
    for (const Operand* operand : operands) {
        std::vector<int64_t> bases;
        if (operand->ragged) bases = reader.bases_of(*operand, buffers);
        for (size_t b = 0; b < batches; ++b) {
            regions[b].bases.push_back(operand->ragged ? bases[b]
                                                       : static_cast<int64_t>(b) *
                                                             operand->strides[schema::BATCH_AXIS]);
        }
    }
    for (size_t b = 0; b < batches; ++b) {
        regions[b].dims[schema::BATCH_AXIS] = 1;
        regions[b].dims[schema::SEQUENCE_AXIS] = reader.rows(b);
    }
    return regions;
}

bool has_elements(const std::vector<Region>& regions) {
    return std::any_of(regions.begin(), regions.end(), [](const Region& region) {
        return std::find(region.dims.begin(), region.dims.end(), 0) == region.dims.end();
    });
}

}  // namespace raggeddnn::reference
