// The gradient of a bias: that of the scores, summed over what the bias is shared by. In float,
// whatever the operands are.
#pragma once

#include "backward.hpp"

namespace raggeddnn::cpu {
namespace {

// One task sums a block of these in the memory that a chunk's gradients take otherwise.
static_assert(BLOCK_KEYS * MAX_LANES <= CHUNK_KEYS * LANES);

void add_score_gradients(const BackwardHead& given, int64_t first, int64_t key, float* sums,
                         void* memory) {
    const PanelRows panel{first, least(MAX_LANES, given.rows - first)};
    const Keys seen = keys_of(given, panel.first, panel.rows);
    const Keys keys = {most(key, seen.begin), least(key + BLOCK_KEYS, seen.end)};
    if (keys.begin >= keys.end) return;
    const BackwardScratch<FloatUnit> scratch(memory, given.width, given.value_width);
    const BackwardHead head = with_plain_d_o(given, panel, scratch.d_o_copy);
    const ScoreUnit unit = ScoreUnit::of(head);
    const int64_t vectors = (panel.rows + LANES - 1) / LANES;
    start_lanes(head, unit, panel, keys, vectors * LANES, scratch);
    const BackwardBlock block = block_of(head, keys, scratch);
    with_vectors<VECTORS>(vectors, [&](auto width) __attribute__((always_inline)) {
        constexpr int WIDTH = decltype(width)::value;
        BackwardStep<FloatUnit, WIDTH>(head, unit, panel, scratch).differentiate(block);
    });
    for (int64_t i = 0; i < block.count(); ++i) {
        float* to = sums + (keys.begin - key + i) * MAX_LANES;
        for (int64_t lane = 0; lane < vectors * LANES; lane += LANES) {
            const Floats gradient = load(scratch.gradients + i * vectors * LANES + lane);
            store(to + lane, load(to + lane) + gradient);
        }
    }
}

}  // namespace
}  // namespace raggeddnn::cpu
