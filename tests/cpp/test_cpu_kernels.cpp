// links: raggeddnn_cpu_objects
// The CPU engine's kernels alone, of every target that this machine runs, against the same sums in
// double: each element type, odd widths, bands, bias, dropout, both passes. Rows lie apart, at odd
// elements, among NaN, and nothing between them may change.
#include "cpu_fixture.hpp"

using namespace check;

namespace {

struct Case {
    int64_t rows;
    int64_t keys;
    int32_t width;
    int32_t value_width;
    Band band = {-OPEN, OPEN};
    double scale = 0;  // 0: that of the width
    bool has_bias = false;
    double dropout = 0;
    bool has_d_stats = false;
    int64_t gap = 3;  // elements between rows
};

const Case CASES[] = {
    {1, 1, 1, 1},
    {3, 2, 3, 5, {-OPEN, 0}},
    {50, 67, 17, 16},
    {49, 70, 65, 33, {-OPEN, 5}, 0, false, 0, true},
    {200, 131, 64, 64, {-OPEN, -4}},
    {97, 129, 129, 31, {-9, 7}, -0.4, false, 0, true},
    {33, 66, 255, 255, {-OPEN, 33}},
    {20, 65, 256, 8, {-3, -3}},
    {40, 90, 24, 24, {-OPEN, OPEN}, 0, true},
    {40, 90, 24, 40, {-OPEN, 50}, 1.5, true, 0.3, true},
    {70, 64, 6, 2, {-OPEN, 0}, 0, false, 0.2},
    {10, 40, 8, 8, {30, OPEN}, 1e-30},
    {60, 1100, 12, 20, {-OPEN, 1040}, 0, false, 0, true},
    {120, 1537, 7, 9, {600, 900}},
    // An odd number of elements before even rows at even distances: words at odd halves.
    {40, 50, 32, 16, {-OPEN, 9}, 0, false, 0, false, 4},
};

std::string title(const KernelSet& set, Element element, const Case& c) {
    return std::string(set.name) + " " + name_of(element) + ", " + std::to_string(c.rows) +
           " rows, " + std::to_string(c.keys) + " keys, widths " + std::to_string(c.width) +
           " and " + std::to_string(c.value_width);
}

// Its value, and the sum of the magnitudes of what it is made of.
struct Score {
    double value;
    double size;
};

// Inputs of a case, and every result in double with the error that arithmetic may leave in it.
struct Problem {
    Case c;
    Matrix q, k, v, d_o, bias, d_stats;
    raggeddnn::plugin::Dropout dropout;
    double scale;
    double weight_error;  // relative, of one weight as products take it

    Problem(const Case& from, Element element, double rounding)
        : c(from),
          q(element, c.rows, c.width, c.gap),
          k(element, c.keys, c.width, c.gap),
          v(element, c.keys, c.value_width, c.gap),
          d_o(element, c.rows, c.value_width, c.gap),
          bias(element, c.rows, c.keys),
          d_stats(Element::FLOAT32, c.rows, 1),
          dropout(raggeddnn::plugin::Dropout::make(c.dropout, 77, 1)),
          scale(static_cast<float>(c.scale != 0 ? c.scale : 1 / std::sqrt(c.width))),
          weight_error(rounding) {
        std::mt19937 random(static_cast<uint32_t>(c.rows * 1000 + c.keys));
        for (Matrix* m : {&q, &k, &v, &d_o, &bias, &d_stats}) m->fill_normal(random);
        for (int64_t row = 0; row < c.rows; row += 4) bias.set(row, row % c.keys, -INFINITE);
    }

    int64_t first_key(int64_t row) const { return std::max<int64_t>(0, row + c.band.first); }
    int64_t end_key(int64_t row) const { return std::min(c.keys, row + c.band.last + 1); }
    Score score(int64_t row, int64_t key) const {
        double sum = 0;
        double size = 0;
        for (int64_t i = 0; i < c.width; ++i) {
            const double term = q.get(row, i) * k.get(key, i);
            sum += term;
            size += std::fabs(term);
        }
        return {sum * scale + (c.has_bias ? bias.get(row, key) : 0.0), size * std::fabs(scale) + 1};
    }
    // Relative, of a weight: as products take it, and what sums of so many terms leave in the
    // scores that it is made of.
    double error_of(double score_size) const { return weight_error + score_size * 0x1p-22; }
    double factor(int64_t row, int64_t key) const {
        return c.dropout > 0 ? dropout.factor(2, 3, row, key) : 1.0;
    }

    void describe(Head& head) {
        head.q = q.as_rows();
        head.k = k.as_rows();
        head.v = v.as_rows();
        head.rows = c.rows;
        head.keys = c.keys;
        head.band = c.band;
        head.scale = static_cast<float>(scale);
        head.width = c.width;
        head.value_width = c.value_width;
        head.element = q.element();
        if (c.has_bias) head.bias = {bias.as_rows().data, bias.stride(), 1, bias.element()};
        if (c.dropout > 0) head.dropout = {true, 2, 3, dropout};
    }
};

// Half the distance to the next number, for a number near 1.
double rounding_of(Element element) {
    return element == Element::FLOAT32 ? 0x1p-24 : element == Element::BFLOAT16 ? 0x1p-8 : 0x1p-11;
}

// Sums that results are judged by, and the error that each may have.
struct Sums {
    std::vector<double> value, error;
    Sums(int64_t rows, int64_t width)
        : value(static_cast<size_t>(rows * width)), error(value.size()) {}
    void add(size_t at, double term, double of_term) {
        value[at] += term;
        error[at] += of_term;
    }
};

void compare(const Matrix& got, const Sums& want, const std::string& what) {
    for (int64_t row = 0; row < got.rows(); ++row) {
        for (int64_t col = 0; col < got.width(); ++col) {
            const auto at = static_cast<size_t>(row * got.width() + col);
            const double value = want.value[at];
            double bound = rounding_of(got.element()) * std::fabs(value) + want.error[at];
            if (got.element() == Element::FLOAT16) bound += 0x1p-25;
            if (got.get(row, col) == value || std::fabs(got.get(row, col) - value) <= bound)
                continue;
            fail(what + " [" + std::to_string(row) + ", " + std::to_string(col) + "] is " +
                 std::to_string(got.get(row, col)) + ", expected " + std::to_string(value) +
                 " +- " + std::to_string(bound));
        }
    }
    if (!got.is_untouched_outside()) fail(what + " was written outside of its rows");
}

void check_forward(const KernelSet& set, Problem& p, const std::string& label, Matrix& o,
                   Matrix& stats) {
    const Case& c = p.c;
    ForwardHead head{};
    p.describe(head);
    head.o = o.as_rows();
    head.stats = stats.as_rows();
    run_forward(set, head);
    Sums outputs(c.rows, c.value_width);
    Sums logs(c.rows, 1);
    for (int64_t row = 0; row < c.rows; ++row) {
        const auto at = static_cast<size_t>(row);
        if (p.first_key(row) >= p.end_key(row)) {
            logs.value[at] = -INFINITE;
            continue;
        }
        std::vector<Score> scores;
        Score largest{-INFINITE, 0.0};
        for (int64_t key = p.first_key(row); key < p.end_key(row); ++key) {
            scores.push_back(p.score(row, key));
            largest = {std::max(largest.value, scores.back().value),
                       std::max(largest.size, scores.back().size)};
        }
        double sum = 0;
        for (const Score& score : scores) sum += std::exp(score.value - largest.value);
        logs.add(at, largest.value + std::log(sum), largest.size * 0x1p-22);
        for (size_t i = 0; i < scores.size(); ++i) {
            const int64_t key = p.first_key(row) + static_cast<int64_t>(i);
            const double weight =
                std::exp(scores[i].value - largest.value) / sum * p.factor(row, key);
            for (int64_t col = 0; col < c.value_width; ++col) {
                const double term = weight * p.v.get(key, col);
                outputs.add(at * static_cast<size_t>(c.value_width) + static_cast<size_t>(col),
                            term, std::fabs(term) * p.error_of(largest.size));
            }
        }
    }
    compare(o, outputs, label + ": o");
    compare(stats, logs, label + ": statistics");
}

struct Gradients {
    Sums dq, dk, dv;
};

// The gradients that `o` and `stats`, as they are stored, lead to.
Gradients differentiate(const Problem& p, const Matrix& o, const Matrix& stats) {
    const Case& c = p.c;
    Gradients sums{Sums(c.rows, c.width), Sums(c.keys, c.width), Sums(c.keys, c.value_width)};
    for (int64_t row = 0; row < c.rows; ++row) {
        double delta = 0;
        double delta_size = 0;
        for (int64_t col = 0; col < c.value_width; ++col) {
            const double term = o.get(row, col) * p.d_o.get(row, col);
            delta += term;
            delta_size += std::fabs(term);
        }
        const double d_log = c.has_d_stats ? p.d_stats.get(row, 0) : 0.0;
        const bool is_alone = p.end_key(row) - p.first_key(row) == 1;
        for (int64_t key = p.first_key(row); key < p.end_key(row); ++key) {
            const Score score = p.score(row, key);
            const double error = p.error_of(score.size);
            const double weight = std::exp(score.value - stats.get(row, 0));
            const double factor = p.factor(row, key);
            double change = 0;
            double change_size = 0;
            for (int64_t col = 0; col < c.value_width; ++col) {
                const double term = p.d_o.get(row, col) * p.v.get(key, col);
                change += term;
                change_size += std::fabs(term);
                const double part = weight * factor * p.d_o.get(row, col);
                sums.dv.add(static_cast<size_t>(key * c.value_width + col), part,
                            std::fabs(part) * error);
            }
            // A single weight is 1, whatever the score.
            const double moved = is_alone ? d_log : change * factor - delta + d_log;
            const double slope = weight * moved * p.scale;
            const double slope_error = weight * std::fabs(p.scale) * error *
                                       (change_size * factor + delta_size + std::fabs(d_log));
            for (int64_t i = 0; i < c.width; ++i) {
                const double from_k = p.k.get(key, i);
                const double from_q = p.q.get(row, i);
                sums.dq.add(static_cast<size_t>(row * c.width + i), slope * from_k,
                            slope_error * std::fabs(from_k));
                sums.dk.add(static_cast<size_t>(key * c.width + i), slope * from_q,
                            slope_error * std::fabs(from_q));
            }
        }
    }
    return sums;
}

void check_backward(const KernelSet& set, Problem& p, const std::string& label, Matrix& o,
                    Matrix& stats) {
    const Case& c = p.c;
    const Element element = p.q.element();
    Matrix dq(element, c.rows, c.width);
    Matrix dq_sums(Element::FLOAT32, c.rows, c.width);
    Matrix dk(element, c.keys, c.width);
    Matrix dv(element, c.keys, c.value_width);
    BackwardHead head{};
    p.describe(head);
    head.o = o.as_rows();
    head.d_o = p.d_o.as_rows();
    head.d_o_step = 1;
    head.stats = stats.as_rows();
    if (c.has_d_stats) head.d_stats = p.d_stats.as_rows();
    head.dq = dq.as_rows();
    if (c.keys > CHUNK_KEYS) head.dq_sums = dq_sums.as_rows();
    run_backward(set, head, dk, dv);
    const Gradients want = differentiate(p, o, stats);
    compare(dq, want.dq, label + ": dq");
    compare(dk, want.dk, label + ": dk");
    compare(dv, want.dv, label + ": dv");
    if (!dq_sums.is_untouched_outside()) fail(label + ": sums of dq outside of their rows");

    // A gradient of o whose elements lie apart gives the same bits.
    Matrix apart(element, c.rows, 2 * c.value_width);
    for (int64_t row = 0; row < c.rows; ++row) {
        for (int64_t col = 0; col < c.value_width; ++col) {
            apart.set(row, 2 * col, p.d_o.get(row, col));
        }
    }
    head.d_o = apart.as_rows();
    head.d_o_step = 2;
    Matrix again_dq(element, c.rows, c.width);
    Matrix again_dk(element, c.keys, c.width);
    Matrix again_dv(element, c.keys, c.value_width);
    head.dq = again_dq.as_rows();
    run_backward(set, head, again_dk, again_dv);
    const auto expect_same = [&label](const Matrix& one, const Matrix& other, const char* name) {
        for (int64_t row = 0; row < one.rows(); ++row) {
            for (int64_t col = 0; col < one.width(); ++col) {
                if (one.get(row, col) == other.get(row, col)) continue;
                return fail(label + ": " + name + " changes with the strides of do");
            }
        }
    };
    expect_same(dq, again_dq, "dq");
    expect_same(dk, again_dk, "dk");
    expect_same(dv, again_dv, "dv");
}

// Errors of single precision, and of weights as pairs of bfloat16 hold them.
double weight_error(const KernelSet& set, Element element) {
    const bool has_pairs = std::string(set.name) == "avx512_bf16";
    return has_pairs && element == Element::BFLOAT16 ? 0x1p-8 : 0x1p-20;
}

void check_case(const KernelSet& set, Element element, const Case& c) {
    Problem problem(c, element, weight_error(set, element));
    Matrix o(element, c.rows, c.value_width);
    Matrix stats(Element::FLOAT32, c.rows, 1);
    const std::string label = title(set, element, c);
    check_forward(set, problem, label, o, stats);
    check_backward(set, problem, label, o, stats);
}

}  // namespace

int main() {
    for (const KernelSet* set : runnable_kernels()) {
        for (const Element element : {Element::FLOAT32, Element::BFLOAT16, Element::FLOAT16}) {
            for (const Case& c : CASES) check_case(*set, element, c);
        }
        std::printf("%s\n", set->name);
    }
    if (failures > 0) std::fprintf(stderr, "%d failures\n", failures);
    return failures == 0 ? 0 : 1;
}
