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
// of values in shared memory; of keys there are two).
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
    using KeyStage = RowStage<Tile, Keys, THREADS, 2>;
    using Values = ValueStage<Tile, Keys, THREADS, SLOTS>;
    using ScoreProduct = typename Arch::template RowProduct<Tile, Queries, Keys, WAVE_ROWS>;
    using OutputProduct = typename Arch::template WeightProduct<Tile, Keys, WAVE_ROWS>;

    // Where the product keeps the queries in registers, values take their place.
    static constexpr bool SHARES_Q = ScoreProduct::KEEPS_ROWS;
    // Threads need so many registers or more each. Where 128 are enough, more blocks of threads
    // hide more than an early begin, which takes more.
    static constexpr int REGISTERS = WIDTH <= 64 ? 128 : 168;
    // A tile's queries and first keys are on their way before the tile before it is done, whose
    // results therefore go out by way of the values' memory.
    static constexpr bool BEGINS_EARLY = !SHARES_Q && !Values::WRITES_AT_FINISH && SLOTS == 1 &&
                                         Queries::ROWS <= Keys::ROWS && REGISTERS > 128;
    static constexpr int Q_ELEMENTS =
        SHARES_Q && Values::SHARED_ELEMENTS > QueryStage::SHARED_ELEMENTS
            ? Values::SHARED_ELEMENTS
            : QueryStage::SHARED_ELEMENTS;

    // Where a tile's rows are; those of keys from the first block on.
    struct TileRows {
        FoundRows<uint16_t> q;
        FoundRows<uint16_t> k;
        FoundRows<uint16_t> v;
        FoundRows<uint16_t> o;
        FoundRows<float> stats;
    };
    RAGGEDDNN_DEVICE static void find_query_rows(const ForwardParams& p, const Sequence& s,
                                                 const Work& work, TileRows& rows) {
        const int64_t row = int64_t{work.tile} * TILE_ROWS;
        const auto output = [&](const RowTensor& tensor) {
            return RowCounts{rows_to_write(tensor, s.rows_q, p.max_rows_q), s.valid_q};
        };
        rows.q = rows_of<uint16_t>(p.q, s.q, work.head, row, {s.valid_q, s.valid_q}, p.width);
        rows.o = rows_of<uint16_t>(p.o, s.o, work.head, row, output(p.o), p.value_width);
        if (!p.stats.data) return;
        rows.stats = rows_of<float>(p.stats, s.stats, work.head, row, output(p.stats), 1);
    }
    RAGGEDDNN_DEVICE static void find_key_rows(const ForwardParams& p, const Sequence& s,
                                               const Work& work, int64_t first_key,
                                               TileRows& rows) {
        const RowCounts counts{s.valid_k, s.valid_k};
        rows.k = rows_of<uint16_t>(p.k, s.k, work.head_k, first_key, counts, p.width);
        rows.v = rows_of<uint16_t>(p.v, s.v, work.head_v, first_key, counts, p.value_width);
    }

    struct alignas(Arch::SHARED_ALIGNMENT) Shared {
        alignas(Arch::SHARED_ALIGNMENT) uint16_t q[Q_ELEMENTS];
        alignas(Arch::SHARED_ALIGNMENT) uint16_t k[KeyStage::SHARED_ELEMENTS];
        alignas(Arch::SHARED_ALIGNMENT) uint16_t v[SHARES_Q ? 1 : Values::SHARED_ELEMENTS];
        TileWork<Sequence, BEGINS_EARLY ? 2 : 1, typename RowsIf<BEGINS_EARLY, TileRows>::Type> at;
    };

    static constexpr int BLOCKS_AT_ONCE = Arch::blocks_at_once(THREADS, REGISTERS, sizeof(Shared));

    RAGGEDDNN_INLINE static void run(const ForwardParams& p, Shared& shared) {
        run_tiles<Forward>(p, p.schedule, 0, shared);
    }

    // Of a tile, in two groups of loads.
    template <class Found>
    RAGGEDDNN_DEVICE static void begin(const ForwardParams& p, const Found& tile, Shared& shared) {
        if (tile.blocks <= 0) {
            fetches_begun();
            fetches_begun();
            return;
        }
        QueryStage queries(source_of(p.q, tile.rows.q, p.width), 0, shared.q);
        queries.begin();
        KeyStage keys(source_of(p.k, tile.rows.k, p.width), 0, shared.k);
        keys.begin();
    }

    // A tile.
    RAGGEDDNN_DEVICE Forward(const ForwardParams& p, Shared& shared)
        : p_(p),
          shared_(shared),
          lane_(renewed_thread_index() % Tile::WAVE),
          wave_row_(uniform(renewed_thread_index() / Tile::WAVE) * WAVE_ROWS),
          has_rows_(wave_row_ < own_rows().q.valid) {}

    template <class Source>
    RAGGEDDNN_DEVICE void compute(Source& source) {
#pragma unroll
        for (int part = 0; part < PARTS; ++part) softmax_[part].start();
        clear(output_);
        const int blocks = uniform(shared_.at.blocks);
        if (blocks <= 0) {
            pass_over(source);
            return;
        }
        KeyStage keys(source_of(p_.k, own_rows().k, p_.width), BEGINS_EARLY ? BLOCK_ROWS : 0,
                      shared_.k);
        Values values(source_of(p_.v, own_rows().v, p_.value_width), 0,
                      SHARES_Q ? shared_.q : shared_.v);
        bring_first(keys, values, source);
        const ScoreProduct product(shared_.q, wave_row_, lane_);
        if (blocks > 1) keys.begin();
        if constexpr (Values::WRITES_AT_FINISH) values.begin();
        Accumulator scores[PARTS][KEY_TILES];
        product.begin(keys.current(), scores);
        if constexpr (BEGINS_EARLY) {
            if (blocks == 1) source.look_ahead();
        }
        product.template finish<0>(scores);
        if (BEGINS_EARLY && blocks == 1) block_barrier();
        for (int block = 0; block + 1 < blocks; ++block) {
            hide_block(block, scores);
            typename Tile::WeightOperand weights[PARTS][KEY_TILES];
            weigh(scores, weights, block == 0);
            arrive<Tile>(keys, values);
            const uint16_t* next_keys = keys.current();
            const uint16_t* own_values = values.current_values();
            if (block + 2 < blocks) keys.begin();
            if constexpr (SLOTS > 1) values.begin();
            // The next scores, while the values are added up and, in another wave, weighed; after
            // them where products are there at once, so that weights give up their registers.
            if (!ScoreProduct::IS_IMMEDIATE) product.begin(next_keys, scores);
            OutputProduct::begin(weights, own_values, lane_, output_);
            if (ScoreProduct::IS_IMMEDIATE) product.begin(next_keys, scores);
            if constexpr (BEGINS_EARLY) {
                if (block + 2 == blocks) source.look_ahead();
            }
            product.template finish<1>(scores);
            if constexpr (SLOTS == 1) {
                OutputProduct::template finish<0>(output_);
                block_barrier();
                values.begin();
            }
        }
        if constexpr (BEGINS_EARLY) begin(p_, shared_.at.next, shared_);
        hide_block(blocks - 1, scores);
        typename Tile::WeightOperand weights[PARTS][KEY_TILES];
        weigh(scores, weights, blocks == 1);
        arrive<Tile, BEGINS_EARLY ? 2 : 0>(values);
        OutputProduct::begin(weights, values.current_values(), lane_, output_);
        OutputProduct::template finish<0>(output_);
    }

    // Rows of the tile that count get their results; the others, as far as something of the
    // tensor is theirs, get zeros and -inf.
    RAGGEDDNN_DEVICE void write() {
        float inverse[PARTS][Tile::STATS];
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            float log_sum[Tile::STATS];
            softmax_[part].finish(factor(), inverse[part], log_sum);
            if (p_.stats.data) write_stats(part, log_sum);
        }
        write_tile<Tile, Queries, THREADS>(BEGINS_EARLY ? shared_.v : shared_.q, wave_row_, lane_,
                                           output_, inverse,
                                           target_of(p_.o, own_rows().o, p_.value_width));
    }

private:
    RAGGEDDNN_DEVICE TileRows own_rows() const {
        if constexpr (BEGINS_EARLY) {
            return shared_.at.rows;
        } else {
            TileRows rows;
            find_query_rows(p_, shared_.at.sequence, shared_.at.work, rows);
            find_key_rows(p_, shared_.at.sequence, shared_.at.work, shared_.at.first_column, rows);
            return rows;
        }
    }
    // Nothing is seen: a tile without blocks.
    template <class Source>
    RAGGEDDNN_DEVICE void pass_over(Source& source) {
        if constexpr (BEGINS_EARLY) {
            fetched<0>();
            block_barrier();
            source.look_ahead();
            block_barrier();
            begin(p_, shared_.at.next, shared_);
        } else {
            source.template find_next<0>();
        }
    }

    // The queries and the first keys are there, the first values on their way, but where blocks in
    // flight take registers: then not all at once.
    template <class Source>
    RAGGEDDNN_DEVICE void bring_first(KeyStage& keys, Values& values, Source& source) {
        if constexpr (BEGINS_EARLY) {
            keys.advance();
            values.begin();
            arrive<Tile, 1>(keys);
            fold_sign();
        } else {
            constexpr bool IS_EARLY = !Values::WRITES_AT_FINISH;
            QueryStage queries(source_of(p_.q, own_rows().q, p_.width), 0, shared_.q);
            queries.begin();
            keys.begin();
            if constexpr (IS_EARLY) values.begin();
            if constexpr (IS_EARLY) source.template find_next<3>();
            arrive<Tile, IS_EARLY ? 1 : 0>(queries, keys);
            fold_sign();
            if constexpr (!IS_EARLY) source.template find_next<0>();
        }
    }

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

    // Only where a row's largest score grew by much, or is its first.
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
        if (Tile::column_of(lane_, 0) != 0) return;
        const FoundRows<float> stats = own_rows().stats;
#pragma unroll
        for (int stat = 0; stat < Tile::STATS; ++stat) {
            const int row = wave_row_ + 16 * part + Tile::row_of_stat(lane_, stat);
            if (row >= stats.written) continue;
            store(stats.data + row * p_.stats.row_stride,
                  row < stats.valid ? log_sum[stat] : RunningSoftmax<Tile>::NOTHING);
        }
    }

    // Nothing of what the wave would weigh is written. Not looked at where registers are full.
    RAGGEDDNN_DEVICE bool is_idle() const { return !Tile::KEEPS_ROWS && !has_rows_; }

    RAGGEDDNN_DEVICE float factor() const {
        return p_.scale == 0 ? LOG2_E : __builtin_fabsf(p_.scale) * LOG2_E;
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
