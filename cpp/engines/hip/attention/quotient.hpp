// A division by a number whose inverse is known.
#pragma once

#include "device.hpp"

namespace raggeddnn::hip {

RAGGEDDNN_EITHER constexpr uint32_t inverse_of(uint32_t by) { return UINT32_MAX / by; }

// number / by, given inverse_of(by): what a division takes a hundred cycles for. The product's
// upper half is at most 1 too small, since the inverse is at most 1 less than 2^32 / by.
RAGGEDDNN_EITHER constexpr uint32_t quotient(uint32_t number, uint32_t by, uint32_t inverse) {
    const auto least = static_cast<uint32_t>(uint64_t{number} * inverse >> 32);
    return least + (number - least * by >= by ? 1 : 0);
}

}  // namespace raggeddnn::hip
