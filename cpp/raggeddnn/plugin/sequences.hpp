// Where each batch of a ragged or padded attention problem begins and how many of its rows count:
// offsets and lengths as the host reads them at execute, every one checked before anything is
// written. For engines whose buffers live in host memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/plugin/buffers.hpp"
#include "raggeddnn/plugin/ragged_blocks.hpp"
#include "raggeddnn/schema/sdpa_backward_problem.hpp"

namespace raggeddnn::plugin {

// One batch. Bases are element offsets of its first row. `rows` is the room it has, `valid` how
// many rows, from the first, take part.
struct Sequence {
    int64_t base_q = 0;
    int64_t base_k = 0;
    int64_t base_v = 0;
    int64_t base_o = 0;
    int64_t base_stats = 0;
    int64_t base_d_o = 0;  // from here to base_dv: backward only
    int64_t base_d_stats = 0;
    int64_t base_dq = 0;
    int64_t base_dk = 0;
    int64_t base_dv = 0;
    int64_t rows_q = 0;
    int64_t rows_kv = 0;
    int64_t valid_q = 0;
    int64_t valid_kv = 0;
};

// Keys [begin, end).
struct KeyRange {
    int64_t begin = 0;
    int64_t end = 0;
    bool is_empty() const { return begin >= end; }
};

// Which keys a row sees by position and length. Both ends of the band are inclusive, and neither
// moves back as rows advance.
inline KeyRange visible_keys(const schema::SdpaProblem& p, const Sequence& s, int64_t row) {
    const int64_t diagonal = row + (p.is_bottom_right ? s.valid_kv - s.valid_q : 0);
    KeyRange range{0, s.valid_kv};
    if (p.right_bound) range.end = std::clamp<int64_t>(diagonal + *p.right_bound + 1, 0, range.end);
    if (p.left_bound) range.begin = std::clamp<int64_t>(diagonal - *p.left_bound, 0, s.valid_kv);
    return range;
}

class Sequences {
public:
    // In `memory`, room for one a batch, or, where that is null, in memory of its own.
    // Throws INVALID_VALUE naming tensor, index, what was got and what was expected.
    Sequences(const schema::SdpaProblem& problem, const Buffers& buffers,
              Sequence* memory = nullptr)
        : Sequences(problem, memory) {
        place_forward(problem, buffers);
        finish(problem, buffers);
    }
    Sequences(const schema::SdpaBackwardProblem& problem, const Buffers& buffers,
              Sequence* memory = nullptr)
        : Sequences(static_cast<const schema::SdpaProblem&>(problem), memory) {
        place_forward(problem, buffers);
        place(problem.d_o, buffers, &Sequence::base_d_o, &Sequence::rows_q);
        if (problem.d_stats) {
            place(*problem.d_stats, buffers, &Sequence::base_d_stats, &Sequence::rows_q);
        }
        place(problem.dq, buffers, &Sequence::base_dq, &Sequence::rows_q);
        place(problem.dk, buffers, &Sequence::base_dk, &Sequence::rows_kv);
        place(problem.dv, buffers, &Sequence::base_dv, &Sequence::rows_kv);
        finish(problem, buffers);
    }

    size_t size() const { return sequences_.size(); }
    const Sequence& operator[](size_t batch) const { return sequences_[batch]; }
    auto begin() const { return sequences_.begin(); }
    auto end() const { return sequences_.end(); }

    // In memory of its own.
    Sequences(const Sequences& other)
        : op_(other.op_), own_(other.begin(), other.end()), sequences_(own_) {}
    Sequences& operator=(const Sequences&) = delete;

private:
    Sequences(const schema::SdpaProblem& problem, Sequence* memory) : op_(problem.op) {
        const auto count = static_cast<size_t>(problem.batches());
        if (!memory) own_.resize(count);
        sequences_ = {memory ? memory : own_.data(), count};
        Sequence unknown;
        unknown.rows_q = unknown.rows_kv = UNKNOWN_ROWS;
        std::fill(sequences_.begin(), sequences_.end(), unknown);
    }

    void place_forward(const schema::SdpaProblem& problem, const Buffers& buffers) {
        place(problem.q, buffers, &Sequence::base_q, &Sequence::rows_q);
        place(problem.o, buffers, &Sequence::base_o, &Sequence::rows_q);
        if (problem.stats) {
            place(*problem.stats, buffers, &Sequence::base_stats, &Sequence::rows_q);
        }
        place(problem.k, buffers, &Sequence::base_k, &Sequence::rows_kv);
        place(problem.v, buffers, &Sequence::base_v, &Sequence::rows_kv);
    }

    void finish(const schema::SdpaProblem& problem, const Buffers& buffers) {
        for (Sequence& s : sequences_) {
            if (s.rows_q == UNKNOWN_ROWS) s.rows_q = problem.q.max_rows();
            if (s.rows_kv == UNKNOWN_ROWS) s.rows_kv = problem.k.max_rows();
        }
        limit(problem.seq_len_q, buffers, &Sequence::rows_q, &Sequence::valid_q);
        limit(problem.seq_len_kv, buffers, &Sequence::rows_kv, &Sequence::valid_kv);
    }

    // The tensors of a side agree in its rows.
    void place(const schema::TensorGeometry& tensor, const Buffers& buffers,
               int64_t Sequence::* base, int64_t Sequence::* rows) {
        read_blocks(op_, tensor, sequences_.size(), buffers,
                    [&](size_t b) { return BlockSlot{sequences_[b].*base, sequences_[b].*rows}; });
    }

    void limit(const std::optional<schema::IndexTensor>& lengths, const Buffers& buffers,
               int64_t Sequence::* rows, int64_t Sequence::* valid) {
        if (!lengths) {
            for (Sequence& s : sequences_) s.*valid = s.*rows;
            return;
        }
        const IndexReader values(*lengths, buffers);
        for (size_t b = 0; b < sequences_.size(); ++b) {
            Sequence& s = sequences_[b];
            const auto index = static_cast<int64_t>(b);
            s.*valid = values[index];
            if (s.*valid < 0 || s.*valid > s.*rows) {
                refuse_length(op_, *lengths, index, s.*valid, s.*rows);
            }
        }
    }

    std::string_view op_;
    std::vector<Sequence> own_;
    std::span<Sequence> sequences_;
};

}  // namespace raggeddnn::plugin
