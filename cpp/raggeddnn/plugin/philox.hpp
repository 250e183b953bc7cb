// Which attention probabilities dropout keeps, so that every engine, and the backward pass of
// another one, draws the same bits. Host and device friendly; nothing but <stdint.h>.
//
// The generator is Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2,
// 3", section 3.3; the constants are those of its table 2).
//
// * Key: `seed + offset * 0x9E3779B97F4A7C15` modulo 2^64, low word first. An odd multiplier, so
//   that each offset gives a key of its own, and offset 0 the seed itself. INT32 seeds and offsets
//   are sign-extended first.
// * Counter: (batch, head, row, column), one word each. Heads are query heads; rows and columns
//   count from the first of their sequence, wherever it lies in memory.
// * Of the four words drawn the first counts. A probability is dropped where that word is below
//   floor(p * 2^32), computed in double; kept ones are scaled by 1 / (1 - p).
#pragma once

#include <stdint.h>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define RAGGEDDNN_HOST_DEVICE __host__ __device__
#elif defined(__GNUC__)
// Kernels are compiled with instructions that not every machine has: no linker may share this.
#define RAGGEDDNN_HOST_DEVICE __attribute__((always_inline)) inline
#else
#define RAGGEDDNN_HOST_DEVICE
#endif

namespace raggeddnn::plugin {

struct PhiloxWords {
    uint32_t words[4];
};

RAGGEDDNN_HOST_DEVICE constexpr PhiloxWords philox4x32_10(PhiloxWords counter, uint32_t key_low,
                                                          uint32_t key_high) {
    for (int round = 0; round < 10; ++round) {
        const uint64_t first = uint64_t{0xD2511F53u} * counter.words[0];
        const uint64_t second = uint64_t{0xCD9E8D57u} * counter.words[2];
        counter = {{static_cast<uint32_t>(second >> 32) ^ counter.words[1] ^ key_low,
                    static_cast<uint32_t>(second),
                    static_cast<uint32_t>(first >> 32) ^ counter.words[3] ^ key_high,
                    static_cast<uint32_t>(first)}};
        key_low += 0x9E3779B9u;
        key_high += 0xBB67AE85u;
    }
    return counter;
}

// The dropout of one call. A plain value: kernels take it as a parameter.
struct Dropout {
    uint32_t key_low = 0;
    uint32_t key_high = 0;
    uint32_t threshold = 0;
    double keep_scale = 1.0;

    // probability: at least 0, below 1.
    RAGGEDDNN_HOST_DEVICE static constexpr Dropout make(double probability, int64_t seed,
                                                        int64_t offset) {
        const uint64_t key = static_cast<uint64_t>(seed) +
                             static_cast<uint64_t>(offset) * uint64_t{0x9E3779B97F4A7C15u};
        return {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32),
                static_cast<uint32_t>(probability * 4294967296.0), 1.0 / (1.0 - probability)};
    }

    RAGGEDDNN_HOST_DEVICE constexpr bool keeps(int64_t batch, int64_t head, int64_t row,
                                               int64_t col) const {
        const PhiloxWords drawn =
            philox4x32_10({{static_cast<uint32_t>(batch), static_cast<uint32_t>(head),
                            static_cast<uint32_t>(row), static_cast<uint32_t>(col)}},
                          key_low, key_high);
        return drawn.words[0] >= threshold;
    }

    // What a probability is multiplied with.
    RAGGEDDNN_HOST_DEVICE constexpr double factor(int64_t batch, int64_t head, int64_t row,
                                                  int64_t col) const {
        return keeps(batch, head, row, col) ? keep_scale : 0.0;
    }
};

}  // namespace raggeddnn::plugin
