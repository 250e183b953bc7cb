// Forward attention: O = softmax(scale Q K^T) V, tile by tile of queries, block by block of keys,
// as in FlashAttention-2 (Dao 2023, algorithm 1), over ragged or padded batches.
#pragma once

#include "../tile/arch.hpp"
#include "operand_rows.hpp"
#include "pass_work.hpp"
#include "softmax.hpp"
#include "tile_work.hpp"

namespace raggeddnn::hip {

// Arch: of tile/arch.hpp. Element: Bfloat16 or Float16. Shape: WIDTH (of q, k, v, padded with
// zeros), TILE_ROWS, WAVE_ROWS (16 or 32 of them for each wave), BLOCK_ROWS (keys), SLOTS (blocks
// of keys, and of values, in shared memory).
template <class Arch_, class Element_, class Shape_>
struct Forward : ForwardWork {
    using Arch = Arch_;
    using Element = Element_;
    using Shape = Shape_;
    using Tile = typename Arch::template Tile<Element>;
    using Accumulator = typename Tile::Accumulator;
    static constexpr int WIDTH = Shape::WIDTH;
    static constexpr int TILE_ROWS = Shape::TILE_ROWS;
    static constexpr int BLOCK_ROWS = Shape::BLOCK_ROWS;
    static constexpr int WAVE_ROWS = Shape::WAVE_ROWS;
    static constexpr int SLOTS = Shape::SLOTS;
    static constexpr int PARTS = WAVE_ROWS / 16;  // tiles of 16 rows that a wave has
    static constexpr int THREADS = TILE_ROWS / WAVE_ROWS * Tile::WAVE;
    static constexpr int KEY_TILES = BLOCK_ROWS / 16;
    static constexpr int COLUMN_TILES = WIDTH / 16;

    using Queries = Block<TILE_ROWS, WIDTH>;
    using Keys = Block<BLOCK_ROWS, WIDTH>;
    using QueryStage = RowStage<Tile, Queries, THREADS, 1>;
    using KeyStage = RowStage<Tile, Keys, THREADS, SLOTS>;
    using Values = ValueStage<Tile, Keys, THREADS, SLOTS>;
    using ScoreProduct = typename Arch::template RowProduct<Tile, Queries, Keys, WAVE_ROWS>;
    using OutputProduct = typename Arch::template WeightProduct<Tile, Keys, WAVE_ROWS>;

    // Where the product keeps the queries in registers, values take their place.
    static constexpr bool SHARES_Q = ScoreProduct::KEEPS_ROWS;
    static constexpr int Q_ELEMENTS =
        SHARES_Q && Values::SHARED_ELEMENTS > QueryStage::SHARED_ELEMENTS
            ? Values::SHARED_ELEMENTS
            : QueryStage::SHARED_ELEMENTS;

    struct alignas(Arch::SHARED_ALIGNMENT) Shared {
        alignas(Arch::SHARED_ALIGNMENT) uint16_t q[Q_ELEMENTS];
        alignas(Arch::SHARED_ALIGNMENT) uint16_t k[KeyStage::SHARED_ELEMENTS];
        alignas(Arch::SHARED_ALIGNMENT) uint16_t v[SHARES_Q ? 1 : Values::SHARED_ELEMENTS];
        TileWork<Sequence> at;
    };

    // Of threads that need 168 registers or more each.
    static constexpr int BLOCKS_AT_ONCE = Arch::blocks_at_once(THREADS, 168, sizeof(Shared));

    RAGGEDDNN_INLINE static void run(const ForwardParams& p, Shared& shared) {
        run_tiles<Forward>(p, p.schedule, 0, shared);
    }

    // A tile.
    RAGGEDDNN_DEVICE Forward(const ForwardParams& p, Shared& shared)
        : p_(p),
          shared_(shared),
          lane_(renewed_thread_index() % Tile::WAVE),
          wave_row_(uniform(renewed_thread_index() / Tile::WAVE) * WAVE_ROWS),
          has_rows_(shared.at.work.tile * TILE_ROWS + wave_row_ < shared.at.sequence.valid_q) {}

    template <class Source>
    RAGGEDDNN_DEVICE void compute(Source& source) {
#pragma unroll
        for (int part = 0; part < PARTS; ++part) softmax_[part].start();
        clear(output_);
        const int blocks = uniform(shared_.at.blocks);
        if (blocks <= 0) {
            source.template find_next<0>();
            return;
        }
        const Sequence& s = shared_.at.sequence;
        const int64_t head = shared_.at.work.head;
        const int64_t first_key = shared_.at.first_column;
        QueryStage queries(source_of(p_.q, s.q, head, s.valid_q, p_.width),
                           shared_.at.work.tile * TILE_ROWS, shared_.q);
        KeyStage keys(source_of(p_.k, s.k, shared_.at.work.head_k, s.valid_k, p_.width), first_key,
                      shared_.k);
        Values values(source_of(p_.v, s.v, shared_.at.work.head_v, s.valid_k, p_.value_width),
                      first_key, SHARES_Q ? shared_.q : shared_.v);
        queries.begin();
        keys.begin();
        // Where blocks in flight take registers, not all at once.
        constexpr bool IS_EARLY = !Values::WRITES_AT_FINISH;
        if constexpr (IS_EARLY) values.begin();
        if constexpr (IS_EARLY) source.template find_next<3>();
        arrive<Tile, IS_EARLY ? 1 : 0>(queries, keys);
        fold_sign();
        if constexpr (!IS_EARLY) source.template find_next<0>();
        const ScoreProduct product(shared_.q, wave_row_, lane_);
        if (SLOTS > 1 && blocks > 1) keys.begin();
        if constexpr (!IS_EARLY) values.begin();
        Accumulator scores[PARTS][KEY_TILES];
        product.begin(keys.current(), scores);
        product.template finish<0>(scores);
        if (SLOTS == 1 && blocks > 1) {
            block_barrier();
            keys.begin();
        }
        for (int block = 0; block + 1 < blocks; ++block) {
            hide_block(block, scores);
            typename Tile::WeightOperand weights[PARTS][KEY_TILES];
            weigh(scores, weights, block == 0);
            arrive<Tile>(keys, values);
            const uint16_t* next_keys = keys.current();
            const uint16_t* own_values = values.current_values();
            if constexpr (SLOTS > 1) {
                if (block + 2 < blocks) keys.begin();
                values.begin();
            }
            // The next scores, while the values are added up and, in another wave, weighed; after
            // them where products are there at once, so that weights give up their registers.
            if (!ScoreProduct::IS_IMMEDIATE) product.begin(next_keys, scores);
            OutputProduct::begin(weights, own_values, lane_, output_);
            if (ScoreProduct::IS_IMMEDIATE) product.begin(next_keys, scores);
            product.template finish<1>(scores);
            if constexpr (SLOTS == 1) {
                OutputProduct::template finish<0>(output_);
                block_barrier();
                values.begin();
                if (block + 2 < blocks) keys.begin();
            }
        }
        hide_block(blocks - 1, scores);
        typename Tile::WeightOperand weights[PARTS][KEY_TILES];
        weigh(scores, weights, blocks == 1);
        arrive<Tile>(values);
        OutputProduct::begin(weights, values.current_values(), lane_, output_);
        OutputProduct::template finish<0>(output_);
    }

    // Rows of the tile that count get their results; the others, as far as something of the
    // tensor is theirs, get zeros and -inf.
    RAGGEDDNN_DEVICE void write() {
        const Sequence& s = shared_.at.sequence;
        float inverse[PARTS][Tile::STATS];
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            float log_sum[Tile::STATS];
            softmax_[part].finish(factor(), inverse[part], log_sum);
            if (p_.stats.data) write_stats(part, log_sum);
        }
        write_tile<Tile, Queries, THREADS>(
            shared_.q, wave_row_, lane_, output_, inverse,
            target_of(p_.o, s.o, shared_.at.work.head, shared_.at.work.tile * TILE_ROWS,
                      {rows_to_write(p_.o, s.rows_q, p_.max_rows_q), s.valid_q}, p_.value_width));
    }

private:
    // A negative or zero scale goes into the queries, so that the softmax's factor is positive.
    RAGGEDDNN_DEVICE void fold_sign() {
        if (p_.scale > 0) return;
        for (int i = renewed_thread_index(); i < QueryStage::SHARED_ELEMENTS; i += THREADS) {
            shared_.q[i] =
                p_.scale == 0 ? uint16_t{0} : static_cast<uint16_t>(shared_.q[i] ^ 0x8000);
        }
        Tile::show_to_products();
        block_barrier();
    }

    RAGGEDDNN_DEVICE void hide_block(int block, Accumulator (&scores)[PARTS][KEY_TILES]) const {
        if (is_idle()) return;
        hide_unseen<Forward>(shared_.at, block, wave_row_, lane_, RunningSoftmax<Tile>::NOTHING,
                             scores);
    }

    // Scores become weights, and what was summed before is scaled to them.
    RAGGEDDNN_DEVICE void weigh(Accumulator (&scores)[PARTS][KEY_TILES],
                                typename Tile::WeightOperand (&weights)[PARTS][KEY_TILES],
                                bool is_first) {
        float keep[PARTS][Tile::STATS];
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
#pragma unroll
            for (int s = 0; s < Tile::STATS; ++s) keep[part][s] = 1;
            if (is_idle()) continue;
            softmax_[part].template weigh<KEY_TILES>(scores[part], factor(), keep[part]);
        }
        ScoreProduct::settle(scores);  // before the wait, so that the output's product hides it
        bool is_scaled = false;
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
#pragma unroll
            for (int s = 0; s < Tile::STATS; ++s) is_scaled |= keep[part][s] != 1;
        }
        if (!is_first && any_lane(is_scaled)) scale_output(keep);
        OutputProduct::template finish<0>(output_);
        make_operands<Tile>(scores, lane_, weights);
    }

    // Only where a row's largest score grew.
    RAGGEDDNN_DEVICE void scale_output(const float (&keep)[PARTS][Tile::STATS]) {
        OutputProduct::template finish<0>(output_);
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
#pragma unroll
            for (int c = 0; c < COLUMN_TILES; ++c) {
#pragma unroll
                for (int i = 0; i < Tile::VALUES; ++i) {
                    output_[part][c].x[i] *= keep[part][Tile::stat_of(i)];
                }
            }
        }
    }

    RAGGEDDNN_DEVICE void write_stats(int part, const float (&log_sum)[Tile::STATS]) const {
        const Sequence& s = shared_.at.sequence;
        float* stats = static_cast<float*>(p_.stats.data) + s.stats +
                       shared_.at.work.head * p_.stats.head_stride;
        if (Tile::column_of(lane_, 0) != 0) return;
#pragma unroll
        for (int stat = 0; stat < Tile::STATS; ++stat) {
            const int64_t row = row_of(part, stat);
            if (row >= rows_to_write(p_.stats, s.rows_q, p_.max_rows_q)) continue;
            store(stats + row * p_.stats.row_stride,
                  row < s.valid_q ? log_sum[stat] : RunningSoftmax<Tile>::NOTHING);
        }
    }

    // Nothing of what the wave would weigh is written. Not looked at where registers are full.
    RAGGEDDNN_DEVICE bool is_idle() const { return !Tile::KEEPS_ROWS && !has_rows_; }

    RAGGEDDNN_DEVICE float factor() const {
        return p_.scale == 0 ? LOG2_E : __builtin_fabsf(p_.scale) * LOG2_E;
    }
    RAGGEDDNN_DEVICE int64_t row_of(int part, int stat) const {
        return shared_.at.work.tile * TILE_ROWS + wave_row_ + 16 * part +
               Tile::row_of_stat(lane_, stat);
    }

    const ForwardParams& p_;
    Shared& shared_;
    int lane_;
    int wave_row_;
    bool has_rows_;  // that count, of the wave's
    RunningSoftmax<Tile> softmax_[PARTS];
    Accumulator output_[PARTS][COLUMN_TILES];
};

}  // namespace raggeddnn::hip
