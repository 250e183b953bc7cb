#include "regions.hpp"

#include <algorithm>

#include "raggeddnn/plugin/ragged_blocks.hpp"

namespace raggeddnn::reference {

using schema::Operand;

std::vector<Region> regions_of(std::string_view op, const Dims& dims,
                               const std::vector<const Operand*>& operands,
                               const plugin::Buffers& buffers, bool by_batch) {
    const bool is_ragged = std::any_of(operands.begin(), operands.end(),
                                       [](const Operand* o) { return o->ragged.has_value(); });
    if (!is_ragged && !by_batch) {
        return {{dims, std::vector<int64_t>(operands.size(), 0), 0}};
    }
    std::vector<Region> regions(static_cast<size_t>(dims[schema::BATCH_AXIS]));
    for (size_t b = 0; b < regions.size(); ++b) {
        regions[b].dims = dims;
        regions[b].dims[schema::BATCH_AXIS] = 1;
        if (is_ragged) regions[b].dims[schema::SEQUENCE_AXIS] = plugin::UNKNOWN_ROWS;
        regions[b].bases.resize(operands.size());
        regions[b].batch = static_cast<int64_t>(b);
    }
    for (size_t i = 0; i < operands.size(); ++i) {
        plugin::read_blocks(op, *operands[i], regions.size(), buffers, [&](size_t b) {
            return plugin::BlockSlot{regions[b].bases[i], regions[b].dims[schema::SEQUENCE_AXIS]};
        });
    }
    return regions;
}

bool has_elements(const std::vector<Region>& regions) {
    return std::any_of(regions.begin(), regions.end(), [](const Region& region) {
        return std::find(region.dims.begin(), region.dims.end(), 0) == region.dims.end();
    });
}

}  // namespace raggeddnn::reference
