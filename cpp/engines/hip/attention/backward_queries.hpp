// Backward attention, first pass: dQ = scale dS K with dS = P (dO V^T - delta), tile by tile of
// queries, block by block of keys, with P computed again from the log-sum-exp (Dao 2023,
// "FlashAttention-2", algorithm 2, with rows and columns exchanged: no sum is shared between tiles,
// so nothing depends on their order). Leaves delta for the second pass.
#pragma once

#include "backward_tile.hpp"

namespace raggeddnn::hip {

// Shape: WIDTH, TILE_ROWS, WAVE_ROWS, BLOCK_ROWS (keys), SLOTS (blocks of keys in shared memory).
template <class Arch_, class Element_, class Shape_>
struct BackwardQueries : QueryGradientWork {
    using Arch = Arch_;
    using Element = Element_;
    using Shape = Shape_;
    using Tile = typename Arch::template Tile<Element>;
    using Accumulator = typename Tile::Accumulator;
    static constexpr int WIDTH = Shape::WIDTH;
    static constexpr int TILE_ROWS = Shape::TILE_ROWS;
    static constexpr int BLOCK_ROWS = Shape::BLOCK_ROWS;
    static constexpr int WAVE_ROWS = Shape::WAVE_ROWS;
    static constexpr int PARTS = WAVE_ROWS / 16;
    static constexpr int THREADS = TILE_ROWS / WAVE_ROWS * Tile::WAVE;
    static constexpr int KEY_TILES = BLOCK_ROWS / 16;
    static constexpr int COLUMN_TILES = WIDTH / 16;

    using Rows = Block<TILE_ROWS, WIDTH>;
    using Keys = Block<BLOCK_ROWS, WIDTH>;
    using TileStage = RowStage<Tile, Rows, THREADS, 1>;
    using KeyStage = BothStage<Tile, Keys, THREADS, Shape::SLOTS>;
    using Values = RowStage<Tile, Keys, THREADS, Shape::SLOTS>;
    using ScoreProduct =
        typename Arch::template RowProduct<Tile, Rows, Keys, WAVE_ROWS, Tile::BACKWARD_STEPS>;
    using GradientProduct = typename Arch::template WeightProduct<Tile, Keys, WAVE_ROWS>;

    using Memory =
        TileMemory<Tile, TileStage, 2, KeyStage::SHARED_ELEMENTS + Values::SHARED_ELEMENTS>;

    struct alignas(Arch::SHARED_ALIGNMENT) Shared {
        uint16_t memory[Memory::ELEMENTS];
        RowTerms<TILE_ROWS> terms;
        TileWork<BackwardSequence> at;
    };

    // Of threads that need 168 registers or more each.
    static constexpr int BLOCKS_AT_ONCE = Arch::blocks_at_once(THREADS, 168, sizeof(Shared));

    RAGGEDDNN_INLINE static void run(const BackwardParams& p, Shared& shared) {
        run_tiles<BackwardQueries>(p, p.schedule_q, 0, shared);
    }

    // A tile.
    RAGGEDDNN_DEVICE BackwardQueries(const BackwardParams& p, Shared& shared)
        : p_(p),
          shared_(shared),
          lane_(renewed_thread_index() % Tile::WAVE),
          wave_row_(uniform(renewed_thread_index() / Tile::WAVE) * WAVE_ROWS) {}

    template <class Source>
    RAGGEDDNN_DEVICE void compute(Source& source) {
        clear(gradient_);
        const int blocks = uniform(shared_.at.blocks);
        if (blocks <= 0) {
            source.template find_next<0>();
            clear_delta();
            return;
        }
        const Sequence& s = shared_.at.sequence;
        const int64_t head = shared_.at.work.head;
        const int64_t head_k = shared_.at.work.head_k;
        const int64_t row = int64_t{shared_.at.work.tile} * TILE_ROWS;
        const int64_t first_key = shared_.at.first_column;

        uint16_t* const d_o_memory = shared_.memory + Memory::SECOND_AT;
        TileStage queries(source_of(p_.q, s.q, head, s.valid_q, p_.width), row, shared_.memory);
        TileStage d_o(source_of(p_.d_o, s.d_o, head, s.valid_q, p_.value_width), row, d_o_memory);
        KeyStage keys(source_of(p_.k, s.k, head_k, s.valid_k, p_.width), first_key,
                      shared_.memory + Memory::BLOCKS_AT);
        Values values(source_of(p_.v, s.v, head_k, s.valid_k, p_.value_width), first_key,
                      shared_.memory + Memory::BLOCKS_AT + KeyStage::SHARED_ELEMENTS);
        queries.begin();
        if constexpr (Tile::KEEPS_ROWS) arrive<Tile>(queries);
        const ScoreProduct score_product(shared_.memory, wave_row_, lane_);
        d_o.begin();
        keys.begin();
        values.begin();
        const RowSource o = source_of(p_.o, s.o, head, s.valid_q, p_.value_width).from(row);
        TermLoads loads;
        begin_terms(o, loads);
        if constexpr (!KeyStage::WRITES_AT_FINISH) source.template find_next<4>();
        if constexpr (Tile::KEEPS_ROWS) {
            arrive<Tile>(d_o);
        } else {
            arrive<Tile>(queries, d_o, keys, values);
        }
        find_terms(o, loads, d_o_memory);
        const ScoreProduct weight_product(d_o_memory, wave_row_, lane_);
        if constexpr (Tile::KEEPS_ROWS) {
            arrive<Tile>(keys, values);
        } else {
            block_barrier();
        }
        read_terms();
        if constexpr (KeyStage::WRITES_AT_FINISH) source.template find_next<0>();

        for (int block = 0; block < blocks; ++block) {
            const uint16_t* own_keys = keys.current_values();
            const bool has_next = block + 1 < blocks;
            if (Shape::SLOTS > 1 && has_next) {
                keys.begin();
                values.begin();
            }
            Accumulator scores[PARTS][KEY_TILES];
            Accumulator d_weights[PARTS][KEY_TILES];
            score_product.begin(keys.current(), scores);
            weight_product.begin(values.current(), d_weights);
            score_product.template finish<1>(scores);
            weigh(scores);
            weight_product.template finish<0>(d_weights);
#pragma unroll
            for (int part = 0; part < PARTS; ++part) {
                differentiate<Tile>(scores[part], d_weights[part],
                                    [&](int, int i) { return delta_[part][Tile::stat_of(i)]; });
            }
            hide_unseen<BackwardQueries>(shared_.at, block, wave_row_, lane_, 0.0F, d_weights);
            typename Tile::WeightOperand d_scores[PARTS][KEY_TILES];
            make_operands<Tile>(d_weights, lane_, d_scores);
            GradientProduct::begin(d_scores, own_keys, lane_, gradient_);
            GradientProduct::template finish<0>(gradient_);
            if (!has_next) break;
            if constexpr (Shape::SLOTS == 1) {
                block_barrier();
                keys.begin();
                values.begin();
            }
            arrive<Tile>(keys, values);
        }
    }

    // Valid rows get their gradients, the others that belong to the tensor get zeros.
    RAGGEDDNN_DEVICE void write() {
        const Sequence& s = shared_.at.sequence;
        write_tile<Tile, Rows, THREADS>(
            shared_.memory, wave_row_, lane_, gradient_, RowFactors<Tile, PARTS>(p_.scale).of,
            target_of(p_.d_q, s.d_q, shared_.at.work.head,
                      int64_t{shared_.at.work.tile} * TILE_ROWS,
                      {rows_to_write(p_.d_q, s.rows_q, p_.max_rows_q), s.valid_q}, p_.width));
    }

private:
    // The terms of each wave's rows: a few lanes side by side share a row, and each keeps those of
    // at most one. What device memory has of them is on its way while dO is.
    static constexpr int TERM_LANES = WIDTH / 8 >= 32 ? 32 : WIDTH / 8 >= 16 ? 16 : 8;
    static constexpr int TERM_CHUNKS = (WIDTH / 8 + TERM_LANES - 1) / TERM_LANES;  // a lane's
    static constexpr int TERM_STEP = Tile::WAVE / TERM_LANES;                      // rows at a time
    static constexpr int TERM_ROWS = WAVE_ROWS / TERM_STEP;  // that a lane has a part of
    static_assert(TERM_ROWS <= TERM_LANES);
    struct TermLoads {
        ChunkWords o[TERM_ROWS][TERM_CHUNKS];
        float stat;
        float d_stats;
    };
    RAGGEDDNN_DEVICE int term_row(int n) const {
        return wave_row_ + lane_ / TERM_LANES + n * TERM_STEP;
    }
    RAGGEDDNN_DEVICE int term_column(int c) const {
        return 8 * (lane_ % TERM_LANES + c * TERM_LANES);
    }

    RAGGEDDNN_DEVICE void begin_terms(const RowSource& o, TermLoads& loads) const {
        const Sequence& s = shared_.at.sequence;
        const Work& work = shared_.at.work;
        RowSource wide = o;
        if (!o.is_wide) wide.rows = 0;  // read later
#pragma unroll
        for (int n = 0; n < TERM_ROWS; ++n) {
#pragma unroll
            for (int c = 0; c < TERM_CHUNKS; ++c) {
                loads.o[n][c] = wide.words(term_row(n), term_column(c));
            }
        }
        loads.stat = RunningSoftmax<Tile>::NOTHING;
        loads.d_stats = 0;
        const int64_t own = int64_t{work.tile} * TILE_ROWS + term_row(lane_ % TERM_LANES);
        if (lane_ % TERM_LANES >= TERM_ROWS || own >= s.valid_q) return;
        loads.stat = load(static_cast<const float*>(p_.stats.data) + s.stats +
                          work.head * p_.stats.head_stride + own * p_.stats.row_stride);
        if (!p_.d_stats.data) return;
        loads.d_stats = load(static_cast<const float*>(p_.d_stats.data) + s.d_stats +
                             work.head * p_.d_stats.head_stride + own * p_.d_stats.row_stride);
    }

    // dO is in shared memory.
    RAGGEDDNN_DEVICE void find_terms(const RowSource& o, const TermLoads& loads,
                                     const uint16_t* d_o) {
        float delta = 0;
#pragma unroll
        for (int n = 0; n < TERM_ROWS; ++n) {
            float sum = 0;
#pragma unroll
            for (int c = 0; c < TERM_CHUNKS; ++c) {
                const int r = term_row(n);
                const int column = term_column(c);
                if (WIDTH % (8 * TERM_LANES) != 0 && column >= WIDTH) break;
                const ChunkWords& own = *reinterpret_cast<const ChunkWords*>(
                    d_o + Tile::template place<Rows>(r, column / 8));
                sum += o.is_wide
                           ? dot(loads.o[n][c], own)
                           : dot(o.at(r, column), r < o.rows ? o.columns_from(column) : 0, own);
            }
#pragma unroll
            for (int mask = 1; mask < TERM_LANES; mask *= 2) sum += shuffle_xor(sum, mask);
            if (lane_ % TERM_LANES == n) delta = sum;
        }
        if (lane_ % TERM_LANES >= TERM_ROWS) return;
        const int r = term_row(lane_ % TERM_LANES);
        // Of a row that sees no key the gradient of its stats counts for nothing, too.
        const float log_sum = log_sum_of(loads.stat);
        delta = log_sum == COUNTS_FOR_NOTHING ? 0.0F : delta - loads.d_stats;
        const Work& work = shared_.at.work;
        const int64_t row = int64_t{work.tile} * TILE_ROWS + r;
        if (row < shared_.at.sequence.valid_q) {
            store(delta_of_head(p_, work.batch, work.head) + row, delta);
        }
        shared_.terms.delta[r] = delta;
        shared_.terms.log_sum[r] = log_sum;
    }

    RAGGEDDNN_DEVICE static float element(const ChunkWords& words, int i) {
        return Element::to_float(static_cast<uint16_t>(words.w[i / 2] >> (16 * (i % 2))));
    }
    RAGGEDDNN_DEVICE static float dot(const ChunkWords& a, const ChunkWords& b) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) sum += element(a, i) * element(b, i);
        return sum;
    }
    // The first `count` elements, which no wide load can read, with those of a chunk.
    RAGGEDDNN_COLD static float dot(const uint16_t* a, int count, const ChunkWords& b) {
        float sum = 0;
#pragma unroll 1
        for (int i = 0; i < count; ++i) sum += Element::to_float(a[i]) * element(b, i);
        return sum;
    }

    // Of rows that see no key, which the second pass may read with others.
    RAGGEDDNN_DEVICE void clear_delta() const {
        const int64_t row = int64_t{shared_.at.work.tile} * TILE_ROWS + thread_index();
        if (thread_index() >= TILE_ROWS || row >= shared_.at.sequence.valid_q) return;
        store(delta_of_head(p_, shared_.at.work.batch, shared_.at.work.head) + row, 0.0F);
    }

    RAGGEDDNN_DEVICE void read_terms() {
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
#pragma unroll
            for (int s = 0; s < Tile::STATS; ++s) {
                const int row = wave_row_ + 16 * part + Tile::row_of_stat(lane_, s);
                log_sum_[part][s] = shared_.terms.log_sum[row];
                delta_[part][s] = shared_.terms.delta[row];
            }
        }
    }

    // Scores become the weights of the forward pass, but for keys that a row does not see: theirs
    // may be anything.
    RAGGEDDNN_DEVICE void weigh(Accumulator (&scores)[PARTS][KEY_TILES]) const {
        const float factor = p_.scale * LOG2_E;
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            weigh_again<Tile>(scores[part], factor,
                              [&](int, int i) { return log_sum_[part][Tile::stat_of(i)]; });
        }
    }

    const BackwardParams& p_;
    Shared& shared_;
    int lane_;
    int wave_row_;
    float log_sum_[PARTS][Tile::STATS];
    float delta_[PARTS][Tile::STATS];
    Accumulator gradient_[PARTS][COLUMN_TILES];
};

}  // namespace raggeddnn::hip
