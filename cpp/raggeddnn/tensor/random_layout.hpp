// Plausible ragged layouts from a seed, for tests and benchmarks: each names the policy that its
// lengths follow, so that nothing about it is left to chance.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "raggeddnn/base/error.hpp"

namespace raggeddnn {

enum class LayoutKind {
    UNIFORM,   // any length from 0 to max_rows
    ZEROS,     // as UNIFORM, about every second batch empty, one at least
    ONE_LONG,  // one batch of max_rows, the others of at most an eighth of it
    FULL,      // every batch of max_rows
    SLACK,     // as UNIFORM, with rows of padding after a batch's valid ones, and after the last
};

struct LayoutKindName {
    LayoutKind kind;
    std::string_view name;
};
inline constexpr LayoutKindName LAYOUT_KINDS[] = {{LayoutKind::UNIFORM, "uniform"},
                                                  {LayoutKind::ZEROS, "zeros"},
                                                  {LayoutKind::ONE_LONG, "one_long"},
                                                  {LayoutKind::FULL, "full"},
                                                  {LayoutKind::SLACK, "slack"}};

// All in rows (sequence positions).
struct RaggedLayout {
    std::vector<int64_t> seq_lens;  // B: valid rows of each batch
    std::vector<int64_t>
        row_offsets;            // B + 1: where each batch starts, and where the last one ends
    int64_t physical_rows = 0;  // of the buffer, at least row_offsets.back()

    // The offsets in elements, for rows of so many.
    std::vector<int64_t> element_offsets(int64_t row_elements) const {
        std::vector<int64_t> offsets = row_offsets;
        for (int64_t& offset : offsets) offset *= row_elements;
        return offsets;
    }
};

// The same on every platform for the same arguments. No batch is longer than max_rows.
inline RaggedLayout random_ragged_layout(uint64_t seed, int64_t batches, int64_t max_rows,
                                         LayoutKind kind = LayoutKind::UNIFORM) {
    if (batches < 0 || max_rows < 0) {
        invalid("[random_ragged_layout] got ", batches, " batches of at most ", max_rows,
                " rows, expected no negative number");
    }
    std::mt19937_64 random(seed);
    const auto up_to = [&random](int64_t most) {  // inclusive
        return static_cast<int64_t>(random() % (static_cast<uint64_t>(most) + 1));
    };
    const int64_t chosen = batches > 0 ? up_to(batches - 1) : 0;  // the long one, the empty one
    RaggedLayout layout;
    layout.row_offsets.push_back(0);
    for (int64_t b = 0; b < batches; ++b) {
        int64_t length = up_to(max_rows);
        if (kind == LayoutKind::FULL) length = max_rows;
        if (kind == LayoutKind::ZEROS && (b == chosen || up_to(1) == 0)) length = 0;
        if (kind == LayoutKind::ONE_LONG) {
            length = b == chosen ? max_rows : up_to(std::min(max_rows, max_rows / 8 + 1));
        }
        const int64_t padding = kind == LayoutKind::SLACK ? up_to(max_rows - length) : 0;
        layout.seq_lens.push_back(length);
        layout.row_offsets.push_back(layout.row_offsets.back() + length + padding);
    }
    layout.physical_rows = layout.row_offsets.back();
    if (kind == LayoutKind::SLACK) layout.physical_rows += 1 + up_to(max_rows);
    return layout;
}

}  // namespace raggeddnn
