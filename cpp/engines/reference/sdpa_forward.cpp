#include "sdpa_forward.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "typed_memory.hpp"

namespace raggeddnn::reference {
namespace {

using plugin::KeyRange;
using plugin::Sequence;
using plugin::visible_keys;
using schema::SdpaProblem;
using schema::TensorGeometry;

constexpr double INF = std::numeric_limits<double>::infinity();

// Keys are taken in tiles, and a few rows pass over a tile while it is in the cache. A tile begins
// at a multiple of TILE within its sequence, so partial sums per tile do not depend on the batch.
constexpr int64_t TILE = 64;
constexpr int64_t ROWS = 4;
// Independent sums that the compiler keeps in registers.
constexpr int64_t LANES = 16;
static_assert(TILE % LANES == 0);

// Multiplies by 2^exponent, exactly but for underflow; quick while the power itself is a number.
class Power {
public:
    explicit Power(int exponent)
        : exponent_(exponent),
          is_plain_(std::abs(exponent) < 1000),
          factor_(std::ldexp(1.0, exponent)) {}
    double operator()(double x) const { return is_plain_ ? x * factor_ : std::ldexp(x, exponent_); }

private:
    int exponent_;
    bool is_plain_;
    double factor_;
};

// e with |x| < 2^e for all finite x.
int exponent_over(const double* values, int64_t count) {
    double peak = 0.0;
    for (int64_t i = 0; i < count; ++i) {
        const double magnitude = std::fabs(values[i]);
        if (magnitude > peak && magnitude < INF) peak = magnitude;
    }
    return peak > 0.0 ? std::ilogb(peak) + 1 : 0;
}

// Products of DOUBLE operands would leave the range of double: divides values that are far from 1
// by a power of two, so that no finite one exceeds 1, and returns its exponent. Leaves ordinary
// ones alone.
int normalize(double* values, int64_t count) {
    constexpr int ordinary = 450;  // two such operands, and sums of their products, stay in range
    const int exponent = exponent_over(values, count);
    if (std::abs(exponent) <= ordinary) return 0;
    const Power power(-exponent);
    for (int64_t i = 0; i < count; ++i) values[i] = power(values[i]);
    return exponent;
}

int64_t first_element(const TensorGeometry& t, int64_t base, int64_t head, int64_t row) {
    return base + head * t.strides[schema::HEAD_AXIS] + row * t.strides[schema::SEQUENCE_AXIS];
}

Run row_of(const TensorGeometry& t, int64_t base, int64_t head, int64_t row) {
    return {first_element(t, base, head, row), t.strides[schema::WIDTH_AXIS], t.width()};
}

// The keys [keys.begin, keys.end) of one head as doubles, divided by 2^exponent so that none
// exceeds 1: tile after tile, in each column by column of the head dim. Unused places hold 0.
class KeyTiles {
public:
    void read(const SdpaProblem& p, const void* memory, const Sequence& s, int64_t head,
              const KeyRange& keys) {
        const int64_t dim = p.head_dim();
        first_tile_ = keys.begin / TILE;
        const int64_t tiles = (keys.end + TILE - 1) / TILE - first_tile_;
        width_ = dim;
        values_.assign(static_cast<size_t>(tiles * TILE * dim), 0.0);
        for (int64_t key = keys.begin; key < keys.end; ++key) {
            load(p.k.type, memory, row_of(p.k, s.base_k, head, key),
                 values_.data() + (key / TILE - first_tile_) * TILE * dim + key % TILE, TILE);
        }
        exponent_ = normalize(values_.data(), static_cast<int64_t>(values_.size()));
    }

    // [dim][TILE]
    const double* tile(int64_t index) const {
        return values_.data() + (index - first_tile_) * TILE * width_;
    }
    int exponent() const { return exponent_; }

private:
    std::vector<double> values_;
    int64_t first_tile_ = 0;
    int64_t width_ = 0;
    int exponent_ = 0;
};

// The values of the same keys, row by row.
class ValueRows {
public:
    void read(const SdpaProblem& p, const void* memory, const Sequence& s, int64_t head,
              const KeyRange& keys) {
        first_ = keys.begin;
        width_ = p.value_dim();
        values_.resize(static_cast<size_t>((keys.end - keys.begin) * width_));
        for (int64_t key = keys.begin; key < keys.end; ++key) {
            load(p.v.type, memory, row_of(p.v, s.base_v, head, key), at(key));
        }
    }
    double* at(int64_t key) { return values_.data() + (key - first_) * width_; }

private:
    std::vector<double> values_;
    int64_t first_ = 0;
    int64_t width_ = 0;
};

// One query row on its way from scores to output. Arrays over keys begin at keys.begin.
struct Row {
    KeyRange keys;
    double lse = -INF;
    int exponent = 0;  // score = dot * 2^exponent + bias
    int shift = 0;     // what `weights` holds as scores was divided by 2^shift
    std::vector<double> q;
    std::vector<double> dots;
    std::vector<double> bias;     // empty without one
    std::vector<double> weights;  // scores, then their softmax
    std::vector<double> o;

    int64_t count() const { return keys.end - keys.begin; }
    int64_t at(int64_t key) const { return key - keys.begin; }
    // Such a key does not count, whatever its dot product is, NaN included.
    bool is_hidden(size_t i) const { return !bias.empty() && bias[i] == -INF; }
};

class HeadForward {
public:
    HeadForward(const SdpaProblem& p, double scale, const SdpaMemory& memory,
                const std::optional<plugin::Dropout>& dropout)
        : p_(p),
          scale_(scale),
          memory_(memory),
          dropout_(dropout),
          partial_(static_cast<size_t>(p.value_dim())) {
        // The power of two goes with those of q and k.
        if (std::isfinite(scale)) scale_ = std::frexp(scale, &scale_exponent_);
        for (Row& row : rows_) {
            row.q.resize(static_cast<size_t>(p.head_dim()));
            row.o.resize(static_cast<size_t>(p.value_dim()));
        }
    }

    void run(const Sequence& s, int64_t batch) {
        const KeyRange keys = {visible_keys(p_, s, 0).begin,
                               visible_keys(p_, s, s.valid_q - 1).end};
        const int64_t k_group = p_.heads() / p_.k.heads();
        const int64_t v_group = p_.heads() / p_.v.heads();
        for (int64_t head = 0; head < p_.heads(); ++head) {
            if (!keys.is_empty()) {
                if (head % k_group == 0) keys_.read(p_, memory_.k, s, head / k_group, keys);
                if (head % v_group == 0) values_.read(p_, memory_.v, s, head / v_group, keys);
            }
            for (int64_t first = 0; first < s.valid_q; first += ROWS) {
                const int64_t count = std::min(ROWS, s.valid_q - first);
                for (int64_t i = 0; i < count; ++i) start(rows_[i], s, batch, head, first + i);
                for_each_tile(count, [this](Row& row, int64_t tile) { add_dots(row, tile); });
                for (int64_t i = 0; i < count; ++i) {
                    softmax(rows_[i]);
                    drop(rows_[i], batch, head, first + i);
                }
                for_each_tile(count, [this](Row& row, int64_t tile) { add_values(row, tile); });
                for (int64_t i = 0; i < count; ++i) finish(rows_[i], s, head, first + i);
            }
        }
    }

private:
    // The part of a tile that a row sees.
    static KeyRange part_of(const Row& row, int64_t tile) {
        return {std::max(row.keys.begin, tile * TILE), std::min(row.keys.end, (tile + 1) * TILE)};
    }

    template <class Body>
    void for_each_tile(int64_t count, Body&& body) {
        int64_t begin = std::numeric_limits<int64_t>::max();
        int64_t end = 0;
        for (int64_t i = 0; i < count; ++i) {
            if (rows_[i].keys.is_empty()) continue;
            begin = std::min(begin, rows_[i].keys.begin / TILE);
            end = std::max(end, (rows_[i].keys.end + TILE - 1) / TILE);
        }
        for (int64_t tile = begin; tile < end; ++tile) {
            for (int64_t i = 0; i < count; ++i) {
                if (!part_of(rows_[i], tile).is_empty()) body(rows_[i], tile);
            }
        }
    }

    void start(Row& row, const Sequence& s, int64_t batch, int64_t head, int64_t index) {
        std::fill(row.o.begin(), row.o.end(), 0.0);
        row.lse = -INF;
        row.keys = visible_keys(p_, s, index);
        if (row.keys.is_empty()) return;
        load(p_.q.type, memory_.q, row_of(p_.q, s.base_q, head, index), row.q.data());
        row.exponent = normalize(row.q.data(), p_.head_dim()) + keys_.exponent() + scale_exponent_;
        row.dots.resize(static_cast<size_t>(row.count()));
        row.weights.resize(static_cast<size_t>(row.count()));
        if (!p_.bias) return;
        row.bias.resize(static_cast<size_t>(row.count()));
        const int64_t key_stride = p_.bias->strides[schema::WIDTH_AXIS];
        const int64_t base = batch * p_.bias->strides[schema::BATCH_AXIS];
        const int64_t first = first_element(*p_.bias, base, head, index);
        load(p_.bias->type, memory_.bias,
             {first + row.keys.begin * key_stride, key_stride, row.count()}, row.bias.data());
    }

    void add_dots(Row& row, int64_t tile) const {
        double dots[TILE];
        for (int64_t lane = 0; lane < TILE; lane += LANES) {
            dot_products(row.q.data(), keys_.tile(tile) + lane, dots + lane);
        }
        const KeyRange part = part_of(row, tile);
        for (int64_t key = part.begin; key < part.end; ++key) {
            row.dots[static_cast<size_t>(row.at(key))] = dots[key % TILE] * scale_;
        }
    }

    void dot_products(const double* q, const double* key_lanes, double* dots) const {
        double sums[LANES] = {};
        for (int64_t d = 0; d < p_.head_dim(); ++d) {
            for (int64_t i = 0; i < LANES; ++i) sums[i] += q[d] * key_lanes[d * TILE + i];
        }
        std::copy(sums, sums + LANES, dots);
    }

    // Scores divided by 2^shift; hidden keys get -inf. Returns the highest.
    static double set_scores(Row& row, int shift) {
        row.shift = shift;
        const Power dot_power(row.exponent - shift);
        const Power bias_power(-shift);
        double highest = -INF;
        for (size_t i = 0; i < row.weights.size(); ++i) {
            double score = dot_power(row.dots[i]);
            if (!row.bias.empty()) score += bias_power(row.bias[i]);
            if (row.is_hidden(i)) score = -INF;
            row.weights[i] = score;
            if (score > highest) highest = score;
        }
        return highest;
    }

    // Turns dots and bias into weights that sum to 1, with 0 for hidden keys. A row that sees no
    // key is left with weights 0 and LSE -inf.
    static void softmax(Row& row) {
        if (row.keys.is_empty()) return;
        double highest = set_scores(row, 0);
        // The highest score left the range of double (a lower one may: its weight is 0 anyway), or
        // there is none.
        if (!std::isfinite(highest)) {
            const int of_dots = row.exponent + exponent_over(row.dots.data(), row.count());
            const int of_bias = row.bias.empty() ? 0 : exponent_over(row.bias.data(), row.count());
            highest = set_scores(row, std::max({of_dots, of_bias, 0}));
        }
        const bool sees_any = std::any_of(row.weights.begin(), row.weights.end(),
                                          [](double score) { return score != -INF; });
        if (!sees_any) {
            std::fill(row.weights.begin(), row.weights.end(), 0.0);
            return;
        }
        const double sum = exponentials(row, highest);
        for (double& weight : row.weights) weight /= sum;
        row.lse = Power(row.shift)(highest) + std::log(sum);
    }

    // weights = exp(score - highest); returns their sum, added up tile by tile.
    static double exponentials(Row& row, double highest) {
        const Power power(row.shift);
        double sum = 0.0;
        for (int64_t key = row.keys.begin; key < row.keys.end;) {
            const int64_t tile_end = std::min(row.keys.end, (key / TILE + 1) * TILE);
            double tile_sum = 0.0;
            for (; key < tile_end; ++key) {
                double& weight = row.weights[static_cast<size_t>(row.at(key))];
                weight = weight == -INF ? 0.0 : std::exp(power(weight - highest));
                tile_sum += weight;
            }
            sum += tile_sum;
        }
        return sum;
    }

    void drop(Row& row, int64_t batch, int64_t head, int64_t index) const {
        if (!dropout_) return;
        for (int64_t key = row.keys.begin; key < row.keys.end; ++key) {
            row.weights[static_cast<size_t>(row.at(key))] *=
                dropout_->factor(batch, head, index, key);
        }
    }

    // o += weights * V over a tile. Hidden keys are skipped, not multiplied by zero: their values
    // may be NaN.
    void add_values(Row& row, int64_t tile) {
        const KeyRange part = part_of(row, tile);
        const int64_t width = p_.value_dim();
        std::fill(partial_.begin(), partial_.end(), 0.0);
        double* sums = partial_.data();
        for (int64_t key = part.begin; key < part.end; ++key) {
            const double weight = row.weights[static_cast<size_t>(row.at(key))];
            if (weight == 0.0) continue;
            const double* value = values_.at(key);
            for (int64_t i = 0; i < width; ++i) sums[i] += weight * value[i];
        }
        for (int64_t i = 0; i < width; ++i) row.o[static_cast<size_t>(i)] += sums[i];
    }

    void finish(const Row& row, const Sequence& s, int64_t head, int64_t index) const {
        store(p_.o.type, memory_.o, row_of(p_.o, s.base_o, head, index), row.o.data());
        if (!p_.stats) return;
        store(p_.stats->type, memory_.stats, row_of(*p_.stats, s.base_stats, head, index),
              &row.lse);
    }

    const SdpaProblem& p_;
    double scale_;  // * 2^scale_exponent_
    int scale_exponent_ = 0;
    const SdpaMemory& memory_;
    const std::optional<plugin::Dropout>& dropout_;
    KeyTiles keys_;
    ValueRows values_;
    Row rows_[ROWS];
    std::vector<double> partial_;
};

}  // namespace

void sdpa_forward(const SdpaProblem& problem, double scale, const plugin::Sequences& sequences,
                  const SdpaMemory& memory, const std::optional<plugin::Dropout>& dropout) {
    HeadForward forward(problem, scale, memory, dropout);
    for (size_t b = 0; b < sequences.size(); ++b) {
        if (sequences[b].valid_q > 0) forward.run(sequences[b], static_cast<int64_t>(b));
    }
}

}  // namespace raggeddnn::reference
