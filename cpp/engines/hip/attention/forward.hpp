// Forward attention: O = softmax(scale Q K^T) V, tile by tile of queries, block by block of keys,
// as in FlashAttention-2 (Dao 2023, algorithm 1), over ragged or padded batches.
#pragma once

#include "../tile/arch.hpp"
#include "block_range.hpp"
#include "mask.hpp"
#include "params.hpp"
#include "schedule.hpp"
#include "sequence.hpp"
#include "softmax.hpp"

namespace raggeddnn::hip {

// What a tile of queries takes.
struct ForwardWork {
    const ForwardParams& p;

    RAGGEDDNN_DEVICE BatchWork operator()(int64_t batch) const {
        const Sequence s = read_sequence(p, batch);
        int64_t rows = rows_to_write(p.o, s.rows_q, p.max_rows_q);
        if (p.stats.data) {
            const int64_t stats = rows_to_write(p.stats, s.rows_q, p.max_rows_q);
            if (stats > rows) rows = stats;
        }
        return {rows, s.valid_k, s.is_faulty};
    }
};

// Arch: of tile/arch.hpp. Element: Bfloat16 or Float16. Shape: WIDTH (of q, k, v, padded with
// zeros), TILE_ROWS, WAVE_ROWS (16 or 32 of them for each wave), BLOCK_KEYS.
template <class Arch_, class Element_, class Shape_>
struct Forward {
    using Arch = Arch_;
    using Element = Element_;
    using Shape = Shape_;
    using Params = ForwardParams;
    using Tile = typename Arch::template Tile<Element>;
    using Accumulator = typename Tile::Accumulator;
    static constexpr int WIDTH = Shape::WIDTH;
    static constexpr int TILE_ROWS = Shape::TILE_ROWS;
    static constexpr int BLOCK_KEYS = Shape::BLOCK_KEYS;
    static constexpr int WAVE_ROWS = Shape::WAVE_ROWS;
    static constexpr int PARTS = WAVE_ROWS / 16;  // tiles of 16 rows that a wave has
    static constexpr int WAVES = TILE_ROWS / WAVE_ROWS;
    static constexpr int THREADS = WAVES * Tile::WAVE;
    static constexpr int KEY_TILES = BLOCK_KEYS / 16;
    static constexpr int COLUMN_TILES = WIDTH / 16;

    using Queries = Block<TILE_ROWS, WIDTH>;
    using Keys = Block<BLOCK_KEYS, WIDTH>;
    using QueryStage = RowStage<Tile, Queries, THREADS, 1>;
    using KeyStage = RowStage<Tile, Keys, THREADS, 2>;
    using Values = ValueStage<Tile, Keys, THREADS, 2>;
    using ScoreProduct = typename Arch::template RowProduct<Tile, Queries, Keys, WAVE_ROWS>;
    using OutputProduct = typename Arch::template WeightProduct<Tile, Keys, WAVE_ROWS>;

    struct alignas(Arch::SHARED_ALIGNMENT) Shared {
        alignas(Arch::SHARED_ALIGNMENT) uint16_t q[QueryStage::SHARED_ELEMENTS];
        alignas(Arch::SHARED_ALIGNMENT) uint16_t k[KeyStage::SHARED_ELEMENTS];
        alignas(Arch::SHARED_ALIGNMENT) uint16_t v[Values::SHARED_ELEMENTS];
        // Of the tile at hand; thread 0 finds out, registers are scarce.
        Work work;
        Sequence sequence;
        Mask mask;
        BlockRange range;
    };

    RAGGEDDNN_DEVICE static void run(const ForwardParams& p, Shared& shared) {
        while (true) {
            if (thread_index() == 0) take_work(p, shared);
            block_barrier();
            if (!shared.work.is_there) return;
            Forward tile(p, shared);
            tile.compute();
            tile.write();
            block_barrier();
        }
    }

private:
    RAGGEDDNN_DEVICE static void take_work(const ForwardParams& p, Shared& shared) {
        const auto number = static_cast<int64_t>(take_number(p.schedule.next_work));
        const Work work = work_of(p.schedule, p.batches, p.heads, number, true);
        shared.work = work;
        if (!work.is_there) return;
        shared.sequence = read_sequence(p, work.batch);
        shared.mask = make_mask(p.band, shared.sequence);
        const int64_t row = work.tile * TILE_ROWS;
        const int64_t left = shared.sequence.valid_q - row;
        shared.range =
            block_range(shared.mask, row, left < TILE_ROWS ? left : TILE_ROWS, BLOCK_KEYS);
    }

    RAGGEDDNN_DEVICE Forward(const ForwardParams& p, Shared& shared)
        : p_(p),
          shared_(shared),
          lane_(thread_index() % Tile::WAVE),
          wave_row_(thread_index() / Tile::WAVE * WAVE_ROWS),
          factor_(p.scale == 0 ? LOG2_E : __builtin_fabsf(p.scale) * LOG2_E) {}

    RAGGEDDNN_DEVICE static RowSource source(const RowTensor& tensor, int64_t base, int64_t head,
                                             int64_t rows, int width) {
        const uint16_t* data =
            static_cast<const uint16_t*>(tensor.data) + base + head * tensor.head_stride;
        const bool is_wide = reinterpret_cast<uintptr_t>(data) % 16 == 0 &&
                             tensor.row_stride % 8 == 0 && width % 8 == 0;
        return {data, tensor.row_stride, static_cast<int>(rows), width, is_wide};
    }

    RAGGEDDNN_DEVICE void compute() {
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            softmax_[part].start();
#pragma unroll
            for (int c = 0; c < COLUMN_TILES; ++c) output_[part][c] = Accumulator{};
        }
        const int blocks = static_cast<int>(shared_.range.end - shared_.range.begin);
        if (blocks <= 0) return;
        const int plain_begin = static_cast<int>(shared_.range.plain_begin - shared_.range.begin);
        const int plain_end = static_cast<int>(shared_.range.plain_end - shared_.range.begin);

        const Sequence& s = shared_.sequence;
        const int64_t head = shared_.work.head;
        const int64_t first_key = shared_.range.begin * BLOCK_KEYS;
        QueryStage queries(source(p_.q, s.q, head, s.valid_q, p_.width),
                           shared_.work.tile * TILE_ROWS, shared_.q);
        KeyStage keys(source(p_.k, s.k, head / (p_.heads / p_.heads_k), s.valid_k, p_.width),
                      first_key, shared_.k);
        Values values(source(p_.v, s.v, head / (p_.heads / p_.heads_v), s.valid_k, p_.value_width),
                      first_key, shared_.v);
        queries.begin();
        keys.begin();
        arrive(queries, keys);
        fold_sign();
        const ScoreProduct product(shared_.q, wave_row_, lane_);
        if (blocks > 1) keys.begin();
        values.begin();
        Accumulator scores[PARTS][KEY_TILES];
        product.begin(keys.current(), scores);
        product.template finish<0>(scores);
        for (int block = 0; block + 1 < blocks; ++block) {
            if (block < plain_begin || block >= plain_end) hide(block, scores);
            typename Tile::WeightOperand weights[PARTS][KEY_TILES];
            weigh(scores, weights);
            arrive(keys, values);
            const uint16_t* next_keys = keys.current();
            const uint16_t* own_values = values.current_values();
            if (block + 2 < blocks) keys.begin();
            values.begin();
            // The next scores, while the values are added up and, in another wave, weighed.
            product.begin(next_keys, scores);
            OutputProduct::begin(weights, own_values, lane_, output_);
            product.template finish<1>(scores);
        }
        if (blocks - 1 < plain_begin || blocks - 1 >= plain_end) hide(blocks - 1, scores);
        typename Tile::WeightOperand weights[PARTS][KEY_TILES];
        weigh(scores, weights);
        arrive(values);
        OutputProduct::begin(weights, values.current_values(), lane_, output_);
        OutputProduct::template finish<0>(output_);
    }

    // A negative or zero scale goes into the queries, so that the softmax's factor is positive.
    RAGGEDDNN_DEVICE void fold_sign() {
        if (p_.scale > 0) return;
        for (int i = thread_index(); i < QueryStage::SHARED_ELEMENTS; i += THREADS) {
            shared_.q[i] =
                p_.scale == 0 ? uint16_t{0} : static_cast<uint16_t>(shared_.q[i] ^ 0x8000);
        }
        Tile::show_to_products();
        block_barrier();
    }

    // Keys that a row does not see get the score -inf.
    RAGGEDDNN_DEVICE void hide(int block, Accumulator (&scores)[PARTS][KEY_TILES]) const {
        const int64_t first_key = (shared_.range.begin + block) * BLOCK_KEYS;
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            int low[Tile::STATS];
            int high[Tile::STATS];
#pragma unroll
            for (int s = 0; s < Tile::STATS; ++s) {
                const int64_t row = row_of(part, s);
                low[s] = within_block(shared_.mask.first_key(row) - first_key);
                high[s] = within_block(shared_.mask.end_key(row) - first_key);
            }
#pragma unroll
            for (int t = 0; t < KEY_TILES; ++t) {
#pragma unroll
                for (int i = 0; i < Tile::VALUES; ++i) {
                    const int key = 16 * t + Tile::column_of(lane_, i);
                    const int s = Tile::stat_of(i);
                    if (key < low[s] || key >= high[s]) {
                        scores[part][t].x[i] = RunningSoftmax<Tile>::NOTHING;
                    }
                }
            }
        }
    }

    RAGGEDDNN_DEVICE static int within_block(int64_t key) {
        return static_cast<int>(key < 0 ? 0 : key > BLOCK_KEYS ? BLOCK_KEYS : key);
    }

    // Scores become weights, and what was summed before is scaled to them.
    RAGGEDDNN_DEVICE void weigh(Accumulator (&scores)[PARTS][KEY_TILES],
                                typename Tile::WeightOperand (&weights)[PARTS][KEY_TILES]) {
        float keep[PARTS][Tile::STATS];
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            softmax_[part].template weigh<KEY_TILES>(scores[part], factor_, keep[part]);
        }
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
#pragma unroll
            for (int t = 0; t < KEY_TILES; ++t) {
                weights[part][t] = Tile::weights(scores[part][t], lane_);
            }
        }
    }

    // Rows of the tile that count get their results; the others, as far as something of the
    // tensor is theirs, get zeros and -inf.
    RAGGEDDNN_DEVICE void write() {
        const Sequence& sequence = shared_.sequence;
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            float inverse[Tile::STATS];
            float log_sum[Tile::STATS];
            softmax_[part].finish(factor_, inverse, log_sum);
#pragma unroll
            for (int s = 0; s < Tile::STATS; ++s) {
                const int64_t row = row_of(part, s);
                const bool is_valid = row < sequence.valid_q;
                if (row < rows_to_write(p_.o, sequence.rows_q, p_.max_rows_q)) {
                    write_row(part, s, row, is_valid ? inverse[s] : 0.0F);
                }
                const bool is_first = Tile::column_of(lane_, 0) == 0;
                if (p_.stats.data && is_first &&
                    row < rows_to_write(p_.stats, sequence.rows_q, p_.max_rows_q)) {
                    float* stats = static_cast<float*>(p_.stats.data) + sequence.stats;
                    stats[shared_.work.head * p_.stats.head_stride + row * p_.stats.row_stride] =
                        is_valid ? log_sum[s] : RunningSoftmax<Tile>::NOTHING;
                }
            }
        }
    }

    RAGGEDDNN_DEVICE void write_row(int part, int stat, int64_t row, float inverse) const {
        uint16_t* to = static_cast<uint16_t*>(p_.o.data) + shared_.sequence.o +
                       shared_.work.head * p_.o.head_stride + row * p_.o.row_stride;
#pragma unroll
        for (int c = 0; c < COLUMN_TILES; ++c) {
#pragma unroll
            for (int i = 0; i < Tile::VALUES; ++i) {
                const int column = 16 * c + Tile::column_of(lane_, i);
                if (Tile::stat_of(i) != stat || column >= p_.value_width) continue;
                const float value = inverse == 0 ? 0.0F : output_[part][c].x[i] * inverse;
                to[column] = Element::from_float(value);
            }
        }
    }

    RAGGEDDNN_DEVICE int64_t row_of(int part, int stat) const {
        return shared_.work.tile * TILE_ROWS + wave_row_ + 16 * part +
               Tile::row_of_stat(lane_, stat);
    }

    const ForwardParams& p_;
    Shared& shared_;
    int lane_;
    int wave_row_;
    float factor_;
    RunningSoftmax<Tile> softmax_[PARTS];
    Accumulator output_[PARTS][COLUMN_TILES];
};

}  // namespace raggeddnn::hip
