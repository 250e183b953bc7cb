// The sizes of one pass's tiles.
#pragma once

namespace raggeddnn::hip {

// BLOCK_ROWS: of the other side, at a time; SLOTS: such blocks that shared memory holds.
template <int WIDTH_, int TILE_ROWS_, int WAVE_ROWS_, int BLOCK_ROWS_, int SLOTS_>
struct PassSizes {
    static constexpr int WIDTH = WIDTH_;
    static constexpr int TILE_ROWS = TILE_ROWS_;
    static constexpr int WAVE_ROWS = WAVE_ROWS_;
    static constexpr int BLOCK_ROWS = BLOCK_ROWS_;
    static constexpr int SLOTS = SLOTS_;
};

}  // namespace raggeddnn::hip
