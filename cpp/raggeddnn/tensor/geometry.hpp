// Counting elements from dims and strides, with every overflow refused. Strides are in elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "raggeddnn/base/error.hpp"

namespace raggeddnn {

// "[2, 3]", for messages.
inline std::string to_text(std::span<const int64_t> values) {
    std::string text = "[";
    for (size_t i = 0; i < values.size(); ++i) {
        text += (i ? ", " : "") + std::to_string(values[i]);
    }
    return text + "]";
}

// Of a row-major tensor without gaps; an axis of extent 0 counts as 1, so that strides stay
// positive.
inline std::vector<int64_t> packed_strides(std::span<const int64_t> dims) {
    std::vector<int64_t> strides(dims.size(), 1);
    for (size_t i = dims.size(); i-- > 1;) {
        const int64_t extent = dims[i] == 0 ? 1 : dims[i];
        if (__builtin_mul_overflow(strides[i], extent, &strides[i - 1])) {
            invalid("[tensor] dims got ", to_text(dims), ", expected fewer than 2^63 elements");
        }
    }
    return strides;
}

inline void check_geometry(std::span<const int64_t> dims, std::span<const int64_t> strides) {
    if (strides.size() != dims.size()) {
        invalid("[tensor] strides got rank ", strides.size(), ", expected ", dims.size(),
                ", the rank of dims ", to_text(dims));
    }
    for (const int64_t extent : dims) {
        if (extent < 0) {
            invalid("[tensor] dims got ", to_text(dims), ", expected no negative extent");
        }
    }
    for (const int64_t stride : strides) {
        if (stride < 0) {
            invalid("[tensor] strides got ", to_text(strides), ", expected no negative stride");
        }
    }
}

// Of checked dims; a rank of 0 is one element.
inline int64_t count_elements(std::span<const int64_t> dims) {
    int64_t count = 1;
    for (const int64_t extent : dims) {
        if (extent == 0) return 0;
    }
    for (const int64_t extent : dims) {
        if (__builtin_mul_overflow(count, extent, &count)) {
            invalid("[tensor] dims got ", to_text(dims), ", expected fewer than 2^63 elements");
        }
    }
    return count;
}

// Elements from the first to the last one that checked dims and strides address.
inline int64_t count_space(std::span<const int64_t> dims, std::span<const int64_t> strides) {
    int64_t last = 0;
    for (size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] == 0) return 0;
        int64_t step = 0;
        if (__builtin_mul_overflow(dims[i] - 1, strides[i], &step) ||
            __builtin_add_overflow(last, step, &last) ||
            last == std::numeric_limits<int64_t>::max()) {
            invalid("[tensor] got dims ", to_text(dims), " and strides ", to_text(strides),
                    ", expected fewer than 2^63 elements from the first to the last");
        }
    }
    return last + 1;
}

// Is the order of memory the order of dims, without gaps? Strides of single extents are free.
inline bool is_row_major(std::span<const int64_t> dims, std::span<const int64_t> strides) {
    int64_t expected = 1;
    for (size_t i = dims.size(); i-- > 0;) {
        if (dims[i] > 1 && strides[i] != expected) return false;
        expected *= dims[i];
    }
    return true;
}

}  // namespace raggeddnn
