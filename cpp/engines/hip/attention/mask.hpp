// Which keys a row sees: the band around the diagonal, cut off at the sequence's valid keys.
#pragma once

#include "device.hpp"
#include "params.hpp"
#include "sequence.hpp"

namespace raggeddnn::hip {

// What a row sees, of keys that are counted from one on: [left, right) before end. Those of the
// next row are one further, but for the end.
struct MaskEdges {
    int64_t left;
    int64_t right;
    int64_t end;
};

struct Mask {
    int64_t keys;      // valid ones
    int64_t diagonal;  // key of row 0's diagonal
    int64_t left;
    int64_t right;

    // Both ends never move back as rows advance.
    RAGGEDDNN_DEVICE int64_t first_key(int64_t row) const {
        if (left >= Band::OPEN) return 0;
        const int64_t key = row + diagonal - left;
        return key < 0 ? 0 : key;
    }
    RAGGEDDNN_DEVICE int64_t end_key(int64_t row) const {
        if (right >= Band::OPEN) return keys;
        const int64_t end = row + diagonal + right + 1;
        return end < keys ? end : keys;
    }
    RAGGEDDNN_DEVICE MaskEdges edges(int64_t row, int64_t first) const {
        const int64_t at = row + diagonal - first;
        return {left >= Band::OPEN ? -Band::OPEN : at - left,
                right >= Band::OPEN ? Band::OPEN : at + right + 1, keys - first};
    }
    RAGGEDDNN_DEVICE bool sees(int64_t row, int64_t key) const {
        return key >= first_key(row) && key < end_key(row);
    }
};

// The same band with rows and keys exchanged: which rows see a key. Of `rows` valid ones.
RAGGEDDNN_DEVICE inline Mask exchanged(const Mask& mask, int64_t rows) {
    return {rows, -mask.diagonal, mask.right, mask.left};
}

RAGGEDDNN_DEVICE inline Mask make_mask(const Band& band, const Sequence& s) {
    return {s.valid_k, band.is_bottom_right ? s.valid_k - s.valid_q : 0, band.left, band.right};
}

}  // namespace raggeddnn::hip
