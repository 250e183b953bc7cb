// Comparison of an output with a reference that wrote only a part of it: the rest still holds the
// sentinel that both were filled with before.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "raggeddnn/tensor/ragged_tensor.hpp"

namespace raggeddnn {

// An element is close if |reference - other| is at most the sum of what these allow.
struct Tolerance {
    double absolute = 0;
    double relative = 0;  // times |reference|
    double of_row = 0;    // times the largest finite |reference| of its row, over the last axis
    // One for each element of the reference's memory, or none.
    std::span<const double> limits = {};
};

struct SentinelReport {
    size_t compared = 0;
    size_t skipped = 0;            // sentinels of the reference, where it wrote nothing
    size_t genuine_sentinels = 0;  // equal to the sentinel, yet compared: the reference wrote there
    size_t mismatched = 0;
    // The element that exceeds its limit the most, or comes nearest to it; index empty if nothing
    // was compared.
    std::vector<int64_t> worst_index;
    double worst_reference = 0;
    double worst_other = 0;
    double worst_error = 0;
    double worst_limit = 0;

    bool passed() const { return mismatched == 0; }
    explicit operator bool() const { return passed(); }
    std::string to_string() const {
        std::string text = message(mismatched, " of ", compared,
                                   compared == 1 ? " element differs" : " elements differ", " (",
                                   skipped, " never written, skipped)");
        if (worst_index.empty()) return text;
        return text + message("; the worst at ", to_text(worst_index), " got ", number(worst_other),
                              ", expected ", number(worst_reference), " within ", worst_limit,
                              ", off by ", worst_error);
    }

private:
    // A NaN's sign means nothing.
    static std::string number(double value) { return std::isnan(value) ? "nan" : message(value); }
};

namespace detail {

template <ElementType T>
bool same_bits(const T& a, const T& b) {
    return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <ElementType T>
double distance(const T& a, const T& b) {
    if constexpr (std::is_integral_v<T>) {
        const auto wide_a = static_cast<int64_t>(a);
        const auto wide_b = static_cast<int64_t>(b);
        const auto distance = static_cast<uint64_t>(wide_a) - static_cast<uint64_t>(wide_b);
        return static_cast<double>(wide_a >= wide_b ? distance : 0 - distance);
    } else {
        const auto real_a = static_cast<double>(a);
        const auto real_b = static_cast<double>(b);
        if (real_a == real_b || (std::isnan(real_a) && std::isnan(real_b))) return 0;
        const double distance = std::fabs(real_a - real_b);
        return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
    }
}

// Rows of each batch up to the last one that the reference wrote to. Padding is a block of whole
// rows at the end of a batch: a sentinel before that block is a result.
template <ElementType T>
std::vector<int64_t> written_rows(const TensorBase<T>& reference, const T& sentinel, int seq_axis) {
    std::vector<int64_t> rows(static_cast<size_t>(reference.dims()[0]), 0);
    for (auto it = reference.begin(); it != reference.end(); ++it) {
        if (same_bits(*static_cast<const T*>(*it), sentinel)) continue;
        const std::vector<int64_t> index = it.indices();
        int64_t& written = rows[static_cast<size_t>(index[0])];
        written = std::max(written, index[static_cast<size_t>(seq_axis)] + 1);
    }
    return rows;
}

template <ElementType T>
double magnitude(const T& value) {
    const auto real = static_cast<double>(value);
    return std::isfinite(real) ? std::fabs(real) : 0;
}

// How far each element may be off: the tolerance at work on one reference.
template <ElementType T>
class Limits {
public:
    Limits(const TensorBase<T>& reference, const T& sentinel, const Tolerance& tolerance)
        : tolerance_(tolerance), memory_(static_cast<const T*>(reference.raw_host_data())) {
        const size_t space = reference.element_space();
        if (!tolerance.limits.empty() && tolerance.limits.size() != space) {
            invalid("[compare] limits got ", tolerance.limits.size(), " numbers, expected ", space,
                    ", one for each element of the memory");
        }
        if (tolerance.of_row == 0 || reference.dims().empty()) return;
        width_ = static_cast<size_t>(reference.dims().back());
        peaks_.assign(width_ == 0 ? 0 : reference.element_count() / width_, 0);
        size_t visited = 0;
        for (const void* element : reference) {
            const T& value = *static_cast<const T*>(element);
            double& peak = peaks_[visited++ / width_];
            if (!same_bits(value, sentinel)) peak = std::max(peak, magnitude(value));
        }
    }

    // Of the n-th element visited.
    double at(const T& reference, size_t n) const {
        double limit = tolerance_.absolute + tolerance_.relative * magnitude(reference);
        if (!peaks_.empty()) limit += tolerance_.of_row * peaks_[n / width_];
        if (tolerance_.limits.empty()) return limit;
        return limit + tolerance_.limits[static_cast<size_t>(&reference - memory_)];
    }

private:
    const Tolerance& tolerance_;
    const T* memory_;
    size_t width_ = 0;
    std::vector<double> peaks_;
};

template <ElementType T>
void compare_element(const T& reference, const T& other, double limit,
                     const ITensorIterator<true>& where, SentinelReport& report) {
    const double error = distance(reference, other);
    ++report.compared;
    if (!(error <= limit)) ++report.mismatched;
    if (!report.worst_index.empty() && error - limit <= report.worst_error - report.worst_limit) {
        return;
    }
    report.worst_index = where.indices();
    report.worst_reference = static_cast<double>(reference);
    report.worst_other = static_cast<double>(other);
    report.worst_error = error;
    report.worst_limit = limit;
}

}  // namespace detail

// Compares all that the reference wrote. A NaN agrees with any NaN, an infinity with itself only.
// Along the sequence axis (a ragged tensor's own, or `seq_axis` of a padded one, whose axis 0 is
// the batch) only a tail of whole rows of sentinels counts as not written; without one, each
// sentinel does. Throws INVALID_VALUE for tensors of other dims or offsets.
template <ElementType T>
SentinelReport all_close_skip_sentinel(const TensorBase<T>& reference, const TensorBase<T>& other,
                                       const T& sentinel, const Tolerance& tolerance,
                                       std::optional<int> seq_axis = std::nullopt) {
    const auto layout = reference.ragged_iteration_info();
    const auto other_layout = other.ragged_iteration_info();
    if (reference.dims() != other.dims() || layout.has_value() != other_layout.has_value()) {
        invalid("[compare] got ", other_layout ? "ragged" : "dense", " dims ",
                to_text(other.dims()), ", expected ", layout ? "ragged " : "dense ",
                to_text(reference.dims()));
    }
    if (layout && layout->row_offsets != other_layout->row_offsets) {
        invalid("[compare] got offsets ", to_text(other_layout->row_offsets), ", expected ",
                to_text(layout->row_offsets));
    }
    if (layout) seq_axis = layout->seq_axis;
    const auto rank = static_cast<int>(reference.dims().size());
    if (seq_axis && (*seq_axis < 1 || *seq_axis >= rank)) {
        invalid("[compare] seq_axis got ", *seq_axis, ", expected 1 to ", rank - 1);
    }
    std::vector<int64_t> rows;
    if (seq_axis) rows = detail::written_rows(reference, sentinel, *seq_axis);
    const detail::Limits<T> limits(reference, sentinel, tolerance);
    SentinelReport report;
    size_t visited = 0;
    auto there = other.begin();
    for (auto here = reference.begin(); here != reference.end(); ++here, ++there, ++visited) {
        const T& expected = *static_cast<const T*>(*here);
        if (detail::same_bits(expected, sentinel)) {
            const std::vector<int64_t> index = here.indices();
            const bool is_written = seq_axis && index[static_cast<size_t>(*seq_axis)] <
                                                    rows[static_cast<size_t>(index[0])];
            ++(is_written ? report.genuine_sentinels : report.skipped);
            if (!is_written) continue;
        }
        detail::compare_element(expected, *static_cast<const T*>(*there),
                                limits.at(expected, visited), here, report);
    }
    return report;
}

// With the sentinel of the tensors' data type.
inline SentinelReport all_close_skip_sentinel(const ITensor& reference, const ITensor& other,
                                              const Tolerance& tolerance,
                                              std::optional<int> seq_axis = std::nullopt) {
    if (reference.data_type() != other.data_type()) {
        invalid("[compare] got data type ", to_string(other.data_type()), ", expected ",
                to_string(reference.data_type()));
    }
    return with_element_type(reference.data_type(), [&]<class T>(std::type_identity<T>) {
        return all_close_skip_sentinel(dynamic_cast<const TensorBase<T>&>(reference),
                                       dynamic_cast<const TensorBase<T>&>(other),
                                       sentinel_value<T>(), tolerance, seq_axis);
    });
}

}  // namespace raggeddnn
