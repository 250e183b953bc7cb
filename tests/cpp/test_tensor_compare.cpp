// Comparison over sentinels, and random layouts.
#include <cmath>

#include "raggeddnn/tensor/compare.hpp"
#include "raggeddnn/tensor/random_layout.hpp"
#include "tensor_check.hpp"

using namespace raggeddnn;
using namespace raggeddnn::tensor_check;

namespace {

constexpr Tolerance EXACT{};

void check_padding_is_skipped() {
    RaggedTensor<float> reference({2, 4, 2}, {8, 2, 1}, BSHD_SEQ_AXIS,
                                  make_aux<int32_t>({0, 8, 12}));
    RaggedTensor<float> other({2, 4, 2}, {8, 2, 1}, BSHD_SEQ_AXIS, make_aux<int64_t>({0, 8, 12}));
    reference.fill_with_sentinel_value();
    other.fill_with_random_values(5, 6, 1);  // what a kernel may leave in the padding
    for (const Numbers& index :
         {Numbers{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0, 1, 1}, {1, 0, 0}, {1, 0, 1}}) {
        reference.set_host_value(2, index);
        other.set_host_value(2, index);
    }
    SentinelReport report = all_close_skip_sentinel(reference, other, EXACT);
    check(report.passed() && bool(report), report.to_string());
    check(report.compared == 6 && report.skipped == 6,
          "compared and skipped: " + report.to_string());

    other.set_host_value(2.5F, {0, 1, 1});
    other.set_host_value(2.25F, {1, 0, 0});
    report = all_close_skip_sentinel(reference, other, EXACT);
    check(report.mismatched == 2 && report.worst_index == Numbers{0, 1, 1}, report.to_string());
    check_equal(report.worst_error, 0.5, "the worst error");
    check(all_close_skip_sentinel(reference, other, {0.5, 0}).passed(), "an absolute tolerance");
    check(all_close_skip_sentinel(reference, other, {0, 0.25}).passed(), "a relative tolerance");

    other.fill_with_sentinel_value();
    check_equal(all_close_skip_sentinel(reference, other, {9, 9}).mismatched, 6U,
                "what the other did not write differs");
}

// A sentinel between values of the same batch is a result (7.3).
void check_row_tail() {
    RaggedTensor<int32_t> reference({1, 4, 2}, {8, 2, 1}, BSHD_SEQ_AXIS, make_aux<int32_t>({0, 8}));
    RaggedTensor<int32_t> other({1, 4, 2}, {8, 2, 1}, BSHD_SEQ_AXIS, make_aux<int32_t>({0, 8}));
    reference.fill_with_sentinel_value();
    reference.set_host_value(1, {0, 2, 0});
    other.fill_with_value(7);
    other.set_host_value(1, {0, 2, 0});
    const SentinelReport report = all_close_skip_sentinel(reference, other, EXACT);
    check(report.genuine_sentinels == 5 && report.skipped == 2 && report.mismatched == 5,
          report.to_string());

    // Padded tensors: by the axis given; without one every sentinel is skipped.
    Tensor<float> padded({2, 3});
    Tensor<float> kernel({2, 3});
    padded.fill_with_sentinel_value();
    padded.set_host_value(1, {1, 1});
    kernel.set_host_value(1, {1, 1});
    check_equal(all_close_skip_sentinel(padded, kernel, EXACT).compared, 1U, "no axis");
    check_equal(all_close_skip_sentinel(padded, kernel, EXACT, 1).mismatched, 1U, "axis 1");
}

void check_special_values() {
    Tensor<double> a({4});
    Tensor<double> b({4});
    a.fill_from_host(std::vector<double>{NAN, INFINITY, -INFINITY, 1});
    b.fill_from_host(std::vector<double>{NAN, INFINITY, -INFINITY, 1});
    const SentinelReport same = all_close_skip_sentinel(a, b, EXACT);
    check(same.passed() && same.compared == 4, "a computed NaN is no sentinel, and equals a NaN");
    b.fill_from_host(std::vector<double>{1, -INFINITY, 3, NAN});
    check_equal(all_close_skip_sentinel(a, b, {1, 1}).mismatched, 4U, "NaN and infinities");
    Tensor<int64_t> c({1});
    Tensor<int64_t> d({1});
    c.fill_with_value(INT64_MAX);
    d.fill_with_value(INT64_MAX - 1);
    check_equal(all_close_skip_sentinel(c, d, EXACT).mismatched, 1U, "INT64 exactly");
    // A sentinel of the caller's own.
    const TensorBase<double>& typed = a;
    check_equal(all_close_skip_sentinel(typed, typed, 1.0, EXACT).skipped, 1U, "a given sentinel");
}

void check_refusals() {
    constexpr auto bad = ErrorCode::INVALID_VALUE;
    const Tensor<float> a({2, 3});
    const Tensor<double> b({2, 3});
    const Tensor<float> c({3, 2});
    const RaggedTensor<float> d({2, 3}, {3, 1}, 1, make_aux<int32_t>({0, 3, 6}));
    const RaggedTensor<float> e({2, 3}, {3, 1}, 1, make_aux<int32_t>({0, 2, 5}));
    const auto compare = [](const ITensor& x, const ITensor& y, std::optional<int> axis = {}) {
        return [&x, &y, axis] { all_close_skip_sentinel(x, y, EXACT, axis); };
    };
    check_throws(bad, "FLOAT", compare(a, b), "other types");
    check_throws(bad, "[2, 3]", compare(a, c), "other dims");
    check_throws(bad, "dense", compare(a, d), "ragged with dense");
    check_throws(bad, "[0, 3, 6]", compare(d, e), "other offsets");
    check_throws(bad, "seq_axis", compare(a, a, 2), "an axis that is none");
}

void check_layout(LayoutKind kind, uint64_t seed, int64_t batches, int64_t max_rows) {
    const RaggedLayout layout = random_ragged_layout(seed, batches, max_rows, kind);
    const auto count = static_cast<size_t>(batches);
    check(layout.seq_lens.size() == count && layout.row_offsets.size() == count + 1, "sizes");
    check(layout.row_offsets[0] == 0 && layout.physical_rows >= layout.row_offsets.back(), "ends");
    size_t full = 0;
    size_t empty = 0;
    for (size_t b = 0; b < count; ++b) {
        const int64_t rows = layout.row_offsets[b + 1] - layout.row_offsets[b];
        check(layout.seq_lens[b] >= 0 && layout.seq_lens[b] <= rows && rows <= max_rows, "lengths");
        check(kind == LayoutKind::SLACK || rows == layout.seq_lens[b], "padding only as SLACK");
        full += rows == max_rows;
        empty += rows == 0;
    }
    if (kind == LayoutKind::FULL) check_equal(full, count, "FULL");
    if (kind == LayoutKind::ONE_LONG && max_rows > 8)
        check_equal(full, size_t(batches > 0), "ONE_LONG");
    if (kind == LayoutKind::ZEROS && batches > 0) check(empty > 0, "ZEROS");
    const bool has_slack = layout.physical_rows > layout.row_offsets.back();
    check_equal(has_slack, kind == LayoutKind::SLACK, "rows after the last batch");
    check_equal(layout.element_offsets(6).back(), 6 * layout.row_offsets.back(), "elements");
    const RaggedLayout again = random_ragged_layout(seed, batches, max_rows, kind);
    check(again.row_offsets == layout.row_offsets && again.seq_lens == layout.seq_lens, "a seed");
}

}  // namespace

int main() {
    check_padding_is_skipped();
    check_row_tail();
    check_special_values();
    check_refusals();
    for (const LayoutKindName& row : LAYOUT_KINDS) {
        for (uint64_t seed = 0; seed < 20; ++seed) {
            for (const int64_t batches : {0, 1, 7}) {
                for (const int64_t max_rows : {0, 1, 100})
                    check_layout(row.kind, seed, batches, max_rows);
            }
        }
    }
    check_throws(
        ErrorCode::INVALID_VALUE, "no negative", [] { random_ragged_layout(1, -1, 4); },
        "negative batches");
    return finish();
}
