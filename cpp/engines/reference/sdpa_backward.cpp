#include "sdpa_backward.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "typed_memory.hpp"

namespace raggeddnn::reference {
namespace {

using plugin::KeyRange;
using plugin::Sequence;
using plugin::visible_keys;
using schema::SdpaBackwardProblem;
using schema::TensorGeometry;

constexpr double INF = std::numeric_limits<double>::infinity();

Run row_of(const TensorGeometry& t, int64_t base, int64_t head, int64_t row) {
    const int64_t first =
        base + head * t.strides[schema::HEAD_AXIS] + row * t.strides[schema::SEQUENCE_AXIS];
    return {first, t.strides[schema::WIDTH_AXIS], t.width()};
}

// Rows of one head as doubles.
class Rows {
public:
    void reset(int64_t count, int64_t width) {
        width_ = width;
        values_.assign(static_cast<size_t>(count * width), 0.0);
    }
    void read(const TensorGeometry& t, const void* memory, int64_t base, int64_t head,
              const KeyRange& keys) {
        reset(keys.end, t.width());
        for (int64_t key = keys.begin; key < keys.end; ++key) {
            load(t.type, memory, row_of(t, base, head, key), at(key));
        }
    }
    void write(const TensorGeometry& t, void* memory, int64_t base, int64_t head,
               int64_t count) const {
        for (int64_t row = 0; row < count; ++row) {
            store(t.type, memory, row_of(t, base, head, row), values_.data() + row * width_);
        }
    }
    double* at(int64_t row) { return values_.data() + row * width_; }

private:
    std::vector<double> values_;
    int64_t width_ = 0;
};

double dot(const double* a, const double* b, int64_t count) {
    double sum = 0.0;
    for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
    return sum;
}

void add_scaled(double factor, const double* from, int64_t count, double* to) {
    for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

// dBias in double, by its own dims: sums over the axes of size 1, and which elements are to be
// written.
class BiasGradient {
public:
    explicit BiasGradient(const SdpaBackwardProblem& p) : p_(p) {
        if (!p.dbias) return;
        size_t count = 1;
        for (const int64_t dim : p.dbias_dims) count *= static_cast<size_t>(dim);
        sums_.assign(count, 0.0);
        is_written_.assign(count, false);
    }

    explicit operator bool() const { return p_.dbias.has_value(); }

    // Every element within the lengths of a batch counts, if only as 0.
    void claim(const Sequence& s, int64_t batch) {
        const auto& dims = p_.dbias_dims;
        const int64_t rows = dims[2] == 1 ? dims[2] : std::min(dims[2], s.valid_q);
        const int64_t cols = dims[3] == 1 ? dims[3] : std::min(dims[3], s.valid_kv);
        for (int64_t head = 0; head < dims[1]; ++head) {
            for (int64_t row = 0; row < rows; ++row) {
                for (int64_t col = 0; col < cols; ++col) {
                    is_written_[index(batch, head, row, col)] = true;
                }
            }
        }
    }

    void add(int64_t batch, int64_t head, int64_t row, int64_t col, double value) {
        sums_[index(batch, head, row, col)] += value;
    }

    void write(void* memory) const {
        const auto& dims = p_.dbias_dims;
        const auto& strides = p_.dbias->strides;
        size_t at = 0;
        for (int64_t batch = 0; batch < dims[0]; ++batch) {
            for (int64_t head = 0; head < dims[1]; ++head) {
                for (int64_t row = 0; row < dims[2]; ++row) {
                    const int64_t first = batch * strides[0] + head * strides[1] + row * strides[2];
                    for (int64_t col = 0; col < dims[3]; ++col, ++at) {
                        if (!is_written_[at]) continue;
                        store(p_.dbias->type, memory, {first + col * strides[3], 1, 1}, &sums_[at]);
                    }
                }
            }
        }
    }

private:
    size_t index(int64_t batch, int64_t head, int64_t row, int64_t col) const {
        const std::array<int64_t, 4> position = {batch, head, row, col};
        int64_t at = 0;
        for (size_t axis = 0; axis < 4; ++axis) {
            const int64_t dim = p_.dbias_dims[axis];
            at = at * dim + (dim == 1 ? 0 : position[axis]);
        }
        return static_cast<size_t>(at);
    }

    const SdpaBackwardProblem& p_;
    std::vector<double> sums_;
    std::vector<bool> is_written_;
};

class HeadBackward {
public:
    HeadBackward(const SdpaBackwardProblem& p, double scale, const SdpaBackwardMemory& memory,
                 const std::optional<plugin::Dropout>& dropout)
        : p_(p), scale_(scale), memory_(memory), dropout_(dropout), dbias_(p) {
        q_.resize(static_cast<size_t>(p.head_dim()));
        dq_.resize(static_cast<size_t>(p.head_dim()));
        o_.resize(static_cast<size_t>(p.value_dim()));
        d_o_.resize(static_cast<size_t>(p.value_dim()));
    }

    void run(const Sequence& s, int64_t batch) {
        if (dbias_) dbias_.claim(s, batch);
        const int64_t k_group = p_.heads() / p_.k.heads();
        const int64_t v_group = p_.heads() / p_.v.heads();
        KeyRange seen;  // by any row
        if (s.valid_q > 0) {
            seen = {visible_keys(p_, s, 0).begin, visible_keys(p_, s, s.valid_q - 1).end};
        }
        for (int64_t head = 0; head < p_.heads(); ++head) {
            if (head % k_group == 0) {
                if (!seen.is_empty()) keys_.read(p_.k, memory_.k, s.base_k, head / k_group, seen);
                dk_.reset(s.valid_kv, p_.head_dim());
            }
            if (head % v_group == 0) {
                if (!seen.is_empty()) values_.read(p_.v, memory_.v, s.base_v, head / v_group, seen);
                dv_.reset(s.valid_kv, p_.value_dim());
            }
            for (int64_t row = 0; row < s.valid_q; ++row) run_row(s, batch, head, row);
            if ((head + 1) % k_group == 0) {
                dk_.write(p_.dk, memory_.dk, s.base_dk, head / k_group, s.valid_kv);
            }
            if ((head + 1) % v_group == 0) {
                dv_.write(p_.dv, memory_.dv, s.base_dv, head / v_group, s.valid_kv);
            }
        }
    }

    void finish() const {
        if (dbias_ && memory_.dbias) dbias_.write(memory_.dbias);
    }

private:
    void run_row(const Sequence& s, int64_t batch, int64_t head, int64_t row) {
        std::fill(dq_.begin(), dq_.end(), 0.0);
        const KeyRange keys = visible_keys(p_, s, row);
        if (!keys.is_empty()) {
            double lse = 0.0;
            load(p_.stats->type, memory_.stats, row_of(*p_.stats, s.base_stats, head, row), &lse);
            if (lse != -INF) {  // else it saw no key
                read_row(s, batch, head, row, keys);
                for (int64_t key = keys.begin; key < keys.end; ++key) {
                    add_key(batch, head, row, key, lse);
                }
            }
        }
        store(p_.dq.type, memory_.dq, row_of(p_.dq, s.base_dq, head, row), dq_.data());
    }

    void read_row(const Sequence& s, int64_t batch, int64_t head, int64_t row,
                  const KeyRange& keys) {
        load(p_.q.type, memory_.q, row_of(p_.q, s.base_q, head, row), q_.data());
        load(p_.o.type, memory_.o, row_of(p_.o, s.base_o, head, row), o_.data());
        load(p_.d_o.type, memory_.d_o, row_of(p_.d_o, s.base_d_o, head, row), d_o_.data());
        double d_stats = 0.0;
        if (p_.d_stats) {
            load(p_.d_stats->type, memory_.d_stats, row_of(*p_.d_stats, s.base_d_stats, head, row),
                 &d_stats);
        }
        shift_ = d_stats - dot(d_o_.data(), o_.data(), p_.value_dim());
        bias_.assign(static_cast<size_t>(keys.end), 0.0);
        if (!p_.bias) return;
        Run run = row_of(*p_.bias, batch * p_.bias->strides[schema::BATCH_AXIS], head, row);
        run.first += keys.begin * run.stride;
        run.count = keys.end - keys.begin;
        load(p_.bias->type, memory_.bias, run, bias_.data() + keys.begin);
    }

    // Keys that a row cannot see are skipped, not multiplied by zero: they may hold NaN.
    void add_key(int64_t batch, int64_t head, int64_t row, int64_t key, double lse) {
        const double bias = bias_[static_cast<size_t>(key)];
        if (bias == -INF) return;
        const double score = scale_ * dot(q_.data(), keys_.at(key), p_.head_dim()) + bias;
        const double probability = std::exp(score - lse);
        if (probability == 0.0) return;
        const double factor = dropout_ ? dropout_->factor(batch, head, row, key) : 1.0;
        double d_probability = shift_;
        if (factor != 0.0) {
            d_probability += factor * dot(d_o_.data(), values_.at(key), p_.value_dim());
            add_scaled(probability * factor, d_o_.data(), p_.value_dim(), dv_.at(key));
        }
        const double d_score = probability * d_probability;
        add_scaled(scale_ * d_score, keys_.at(key), p_.head_dim(), dq_.data());
        add_scaled(scale_ * d_score, q_.data(), p_.head_dim(), dk_.at(key));
        if (dbias_) dbias_.add(batch, head, row, key, d_score);
    }

    const SdpaBackwardProblem& p_;
    double scale_;
    const SdpaBackwardMemory& memory_;
    const std::optional<plugin::Dropout>& dropout_;
    BiasGradient dbias_;
    Rows keys_;
    Rows values_;
    Rows dk_;
    Rows dv_;
    // One row: its operands, bias by key, and dStats - D.
    std::vector<double> q_;
    std::vector<double> o_;
    std::vector<double> d_o_;
    std::vector<double> dq_;
    std::vector<double> bias_;
    double shift_ = 0.0;
};

}  // namespace

void sdpa_backward(const SdpaBackwardProblem& problem, double scale,
                   const plugin::Sequences& sequences, const SdpaBackwardMemory& memory,
                   const std::optional<plugin::Dropout>& dropout) {
    HeadBackward backward(problem, scale, memory, dropout);
    for (size_t b = 0; b < sequences.size(); ++b) {
        backward.run(sequences[b], static_cast<int64_t>(b));
    }
    backward.finish();
}

}  // namespace raggeddnn::reference
