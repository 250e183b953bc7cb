// Backward attention, second pass: dV = P^T dO and dK = scale dS^T Q, tile by tile of keys, block
// by block of the queries of every head that shares them. All products are those of the first
// pass with rows and columns exchanged: rows of a tile are keys here.
#pragma once

#include "backward_tile.hpp"

namespace raggeddnn::hip {

// Shape: WIDTH, TILE_ROWS (keys), WAVE_ROWS, BLOCK_ROWS (queries), SLOTS (blocks of queries in
// shared memory), HAS_KEYS and HAS_VALUES: which of dK and dV the pass sums. Registers do not hold
// both where rows are wide; then each is a pass.
template <class Arch_, class Element_, class Shape_>
struct BackwardKeys : KeyGradientWork {
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
    static constexpr int QUERY_TILES = BLOCK_ROWS / 16;
    static constexpr int COLUMN_TILES = WIDTH / 16;

    using Rows = Block<TILE_ROWS, WIDTH>;
    using Queries = Block<BLOCK_ROWS, WIDTH>;
    using TileStage = RowStage<Tile, Rows, THREADS, 1>;
    using QueryStage = BothStage<Tile, Queries, THREADS, Shape::SLOTS>;
    using Terms = TermStage<BLOCK_ROWS>;
    using ScoreProduct =
        typename Arch::template RowProduct<Tile, Rows, Queries, WAVE_ROWS, Tile::BACKWARD_STEPS>;
    using GradientProduct = typename Arch::template WeightProduct<Tile, Queries, WAVE_ROWS>;
    static constexpr bool HAS_KEYS = Shape::HAS_KEYS;
    static constexpr bool HAS_VALUES = Shape::HAS_VALUES;
    static_assert(2 * BLOCK_ROWS <= THREADS);

    using Memory = TileMemory<Tile, TileStage, HAS_KEYS ? 2 : 1, 2 * QueryStage::SHARED_ELEMENTS>;

    struct alignas(Arch::SHARED_ALIGNMENT) Shared {
        uint16_t memory[Memory::ELEMENTS];
        RowTerms<BLOCK_ROWS> terms[2];
        TileWork<BackwardSequence> at;
    };

    // Of threads that need 232 registers or more each.
    static constexpr int BLOCKS_AT_ONCE = Arch::blocks_at_once(THREADS, 232, sizeof(Shared));

    RAGGEDDNN_INLINE static void run(const BackwardParams& p, Shared& shared) {
        run_tiles<BackwardKeys>(p, p.schedule_k, HAS_VALUES ? 0 : 1, shared);
    }

    // A tile.
    RAGGEDDNN_DEVICE BackwardKeys(const BackwardParams& p, Shared& shared)
        : p_(p),
          shared_(shared),
          lane_(renewed_thread_index() % Tile::WAVE),
          wave_row_(uniform(renewed_thread_index() / Tile::WAVE) * WAVE_ROWS) {}

    template <class Source>
    RAGGEDDNN_DEVICE void compute(Source& source) {
        if constexpr (HAS_KEYS) clear(d_k_);
        if constexpr (HAS_VALUES) clear(d_v_);
        const int blocks = uniform(shared_.at.blocks);
        if (blocks <= 0) {
            source.template find_next<0>();
            return;
        }
        const Sequence& s = shared_.at.sequence;
        const int64_t head_k = shared_.at.work.head;
        const int64_t row = int64_t{shared_.at.work.tile} * TILE_ROWS;
        const int64_t first_query = shared_.at.first_column;
        const int group = p_.group_k;
        const int64_t first_head = head_k * group;

        uint16_t* const value_memory = shared_.memory + Memory::SECOND_AT;
        TileStage keys(source_of(p_.k, s.k, head_k, s.valid_k, p_.width), row, shared_.memory);
        TileStage values(source_of(p_.v, s.v, head_k, s.valid_k, p_.value_width), row,
                         value_memory);
        QueryStage queries(query_source(first_head), first_query,
                           shared_.memory + Memory::BLOCKS_AT);
        QueryStage d_o(d_o_source(first_head), first_query,
                       shared_.memory + Memory::BLOCKS_AT + QueryStage::SHARED_ELEMENTS);
        Terms terms(term_source(first_head), first_query, shared_.terms);
        keys.begin();
        if constexpr (Tile::KEEPS_ROWS) arrive<Tile>(keys);
        const ScoreProduct score_product(shared_.memory, wave_row_, lane_);
        if constexpr (HAS_KEYS) values.begin();
        queries.begin();
        d_o.begin();
        terms.begin();
        if constexpr (!QueryStage::WRITES_AT_FINISH) source.template find_next<HAS_KEYS ? 4 : 3>();
        if constexpr (!Tile::KEEPS_ROWS) {
            if constexpr (HAS_KEYS) values.template finish<0>();
            arrive<Tile>(keys, queries, d_o, terms);
        } else if constexpr (HAS_KEYS) {
            arrive<Tile>(values);
        }
        const ScoreProduct weight_product(value_memory, wave_row_, lane_);
        if constexpr (Tile::KEEPS_ROWS) arrive<Tile>(queries, d_o, terms);
        if constexpr (QueryStage::WRITES_AT_FINISH) source.template find_next<0>();

        // All blocks of a head, then those of the next one.
        int block = 0;
        int head = 0;  // of those that share the keys
        while (true) {
            const uint16_t* own_queries = queries.current_values();
            const uint16_t* own_d_o = d_o.current_values();
            const RowTerms<BLOCK_ROWS>& own_terms = terms.current();
            const int own_block = block;
            block = block + 1 == blocks ? 0 : block + 1;
            if (block == 0) ++head;
            const bool has_next = head < group;
            if (block == 0 && has_next) {
                queries.restart(query_source(first_head + head), first_query);
                d_o.restart(d_o_source(first_head + head), first_query);
                terms.restart(term_source(first_head + head), first_query);
            }
            if (Shape::SLOTS > 1 && has_next) {
                queries.begin();
                d_o.begin();
                terms.begin();
            }
            Accumulator scores[PARTS][QUERY_TILES];
            Accumulator d_weights[PARTS][QUERY_TILES];
            score_product.begin(queries.current(), scores);
            if constexpr (HAS_KEYS) weight_product.begin(d_o.current(), d_weights);
            score_product.template finish<HAS_KEYS ? 1 : 0>(scores);
            weigh(own_terms, scores);
            typename Tile::WeightOperand weights[PARTS][QUERY_TILES];
            if constexpr (HAS_VALUES) {
                hide_unseen<BackwardKeys>(shared_.at, own_block, wave_row_, lane_, 0.0F, scores);
                make_operands<Tile>(scores, lane_, weights);
                GradientProduct::begin(weights, own_d_o, lane_, d_v_);
            }
            typename Tile::WeightOperand d_scores[PARTS][QUERY_TILES];
            if constexpr (HAS_KEYS) {
                weight_product.template finish<HAS_VALUES ? 1 : 0>(d_weights);
                const float* const deltas = own_terms.delta + Tile::column_of(lane_, 0);
#pragma unroll
                for (int part = 0; part < PARTS; ++part) {
                    differentiate<Tile>(scores[part], d_weights[part], [&](int t, int i) {
                        return deltas[16 * t + Tile::column_of(0, i)];
                    });
                }
                hide_unseen<BackwardKeys>(shared_.at, own_block, wave_row_, lane_, 0.0F, d_weights);
                make_operands<Tile>(d_weights, lane_, d_scores);
                GradientProduct::begin(d_scores, own_queries, lane_, d_k_);
                GradientProduct::template finish<0>(d_k_);
            }
            if constexpr (HAS_VALUES) GradientProduct::template finish<0>(d_v_);
            if (!has_next) break;
            if constexpr (Shape::SLOTS == 1) {
                block_barrier();
                queries.begin();
                d_o.begin();
                terms.begin();
            }
            arrive<Tile>(queries, d_o, terms);
        }
    }

    // Valid rows get their gradients, the others that belong to the tensors get zeros.
    RAGGEDDNN_DEVICE void write() {
        const Sequence& s = shared_.at.sequence;
        if constexpr (HAS_KEYS) write_gradient(d_k_, p_.scale, p_.d_k, s.d_k, p_.width);
        if constexpr (HAS_VALUES) write_gradient(d_v_, 1.0F, p_.d_v, s.d_v, p_.value_width);
    }

private:
    RAGGEDDNN_DEVICE RowSource query_source(int64_t head) const {
        const Sequence& s = shared_.at.sequence;
        return source_of(p_.q, s.q, head, s.valid_q, p_.width);
    }
    RAGGEDDNN_DEVICE RowSource d_o_source(int64_t head) const {
        const Sequence& s = shared_.at.sequence;
        return source_of(p_.d_o, s.d_o, head, s.valid_q, p_.value_width);
    }
    RAGGEDDNN_DEVICE TermSource term_source(int64_t head) const {
        return terms_of(p_, shared_.at.sequence, shared_.at.work.batch, head);
    }

    // Scores become the weights of the forward pass, but for queries that do not see a row: theirs
    // may be anything.
    RAGGEDDNN_DEVICE void weigh(const RowTerms<BLOCK_ROWS>& terms,
                                Accumulator (&scores)[PARTS][QUERY_TILES]) const {
        const float factor = p_.scale * LOG2_E;
        const float* const log_sums = terms.log_sum + Tile::column_of(lane_, 0);
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            weigh_again<Tile>(scores[part], factor, [&](int t, int i) {
                return log_sums[16 * t + Tile::column_of(0, i)];
            });
        }
    }

    RAGGEDDNN_DEVICE void write_gradient(Accumulator (&gradient)[PARTS][COLUMN_TILES], float by,
                                         const RowTensor& tensor, int64_t base, int width) {
        const Sequence& s = shared_.at.sequence;
        write_tile<Tile, Rows, THREADS>(
            shared_.memory, wave_row_, lane_, gradient, RowFactors<Tile, PARTS>(by).of,
            target_of(tensor, base, shared_.at.work.head, int64_t{shared_.at.work.tile} * TILE_ROWS,
                      {rows_to_write(tensor, s.rows_k, p_.max_rows_k), s.valid_k}, width));
    }

    const BackwardParams& p_;
    Shared& shared_;
    int lane_;
    int wave_row_;
    Accumulator d_k_[PARTS][COLUMN_TILES];  // with HAS_KEYS
    Accumulator d_v_[PARTS][COLUMN_TILES];  // with HAS_VALUES
};

}  // namespace raggeddnn::hip
