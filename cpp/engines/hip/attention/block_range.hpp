// Which blocks of keys a tile of rows has to look at, and in which of them every key is visible.
#pragma once

#include "device.hpp"
#include "mask.hpp"

namespace raggeddnn::hip {

// Blocks [begin, end) of `block` keys each. Those before plain_begin have keys that a row's left
// end hides, those from plain_end on such that its right end hides; the others need no mask.
struct BlockRange {
    int64_t begin;
    int64_t end;
    int64_t plain_begin;
    int64_t plain_end;
};

// Rows [row, row + rows) of a sequence.
RAGGEDDNN_DEVICE inline BlockRange block_range(const Mask& mask, int64_t row, int64_t rows,
                                               int64_t block) {
    const int64_t last = row + rows - 1;
    BlockRange range{0, 0, 0, 0};
    const int64_t first_key = mask.first_key(row);  // the least of any row
    const int64_t end_key = mask.end_key(last);     // past the largest of any row
    if (rows <= 0 || first_key >= end_key) return range;
    range.begin = first_key / block;
    range.end = (end_key + block - 1) / block;
    // Visible to every row: from the last row's first key to the first row's last one.
    const int64_t all_begin = mask.first_key(last);
    const int64_t all_end = mask.end_key(row);
    range.plain_begin = (all_begin + block - 1) / block;
    range.plain_end = all_end / block;
    if (range.plain_begin < range.begin) range.plain_begin = range.begin;
    if (range.plain_end > range.end) range.plain_end = range.end;
    return range;
}

}  // namespace raggeddnn::hip
