// Clears what of ragged outputs no block covers: rows past the last block or, where offsets are
// bad, all there is, before the passes write. It runs beside the schedule, which waits for nothing
// of it.
#pragma once

#include "../tile/element.hpp"
#include "../tile/gpu.hpp"
#include "schedule.hpp"

namespace raggeddnn::hip {

// The first byte to clear. Every block of threads finds out for itself.
RAGGEDDNN_DEVICE inline int64_t cleared_from(const ClearedOutput& output, int64_t batches,
                                             int32_t& bad_blocks) {
    const RowTensor& tensor = output.tensor;
    block_barrier();
    if (thread_index() == 0) bad_blocks = 0;
    block_barrier();
    for (int64_t b = thread_index(); b < batches; b += SCHEDULE_THREADS) {
        const int64_t begin = read_index(tensor.offsets, b);
        const int64_t end = read_index(tensor.offsets, b + 1);
        if (rows_between(tensor, b, begin, end, output.max_rows) == NO_BLOCK) {
            add_shared(&bad_blocks, 1);
        }
    }
    block_barrier();
    if (bad_blocks > 0) return 0;
    // No block is bad: the product of what the last one ends with fits in 64 bits.
    const int64_t end =
        read_index(tensor.offsets, batches) * tensor.multiplier * output.element_bytes;
    return end < output.bytes ? end : output.bytes;
}

// [begin, end), by as many threads of all.
RAGGEDDNN_DEVICE inline void clear_elements(const ClearedOutput& output, int64_t begin, int64_t end,
                                            int64_t thread, int64_t threads) {
    auto* const bytes = static_cast<unsigned char*>(output.tensor.data);
    for (int64_t at = begin + thread * output.element_bytes; at < end;
         at += threads * output.element_bytes) {
        if (output.element_bytes == 4) {
            store(reinterpret_cast<uint32_t*>(bytes + at), output.word);
        } else {
            store(reinterpret_cast<uint16_t*>(bytes + at), static_cast<uint16_t>(output.word));
        }
    }
}

// Block `block` of `blocks`, of SCHEDULE_THREADS threads each.
RAGGEDDNN_DEVICE inline void clear_outputs(const AttentionParams& p, int block, int blocks,
                                           int32_t& bad_blocks) {
    const int64_t threads = int64_t{blocks} * SCHEDULE_THREADS;
    const int64_t thread = int64_t{block} * SCHEDULE_THREADS + thread_index();
    for (const ClearedOutput& output : p.cleared) {
        if (!output.tensor.data) continue;
        const int64_t begin = cleared_from(output, p.batches, bad_blocks);
        const auto address = reinterpret_cast<uintptr_t>(output.tensor.data);
        const auto past = static_cast<int64_t>((address + static_cast<uintptr_t>(begin)) % 16);
        const int64_t wide = begin + (16 - past) % 16;  // the first that 16 bytes at once begin at
        if (wide >= output.bytes) {
            clear_elements(output, begin, output.bytes, thread, threads);
            continue;
        }
        const int64_t words = (output.bytes - wide) / 16;
        const uint32_t w = output.word;
        auto* const to = static_cast<unsigned char*>(output.tensor.data) + wide;
        clear_elements(output, begin, wide, thread, threads);
        for (int64_t i = thread; i < words; i += threads) {
            store(reinterpret_cast<ChunkWords*>(to) + i, ChunkWords{{w, w, w, w}});
        }
        clear_elements(output, wide + 16 * words, output.bytes, thread, threads);
    }
}

}  // namespace raggeddnn::hip
