// What the checks of the CPU engine's kernels share: rows of any element type among NaN, memory of
// a stated size, and whole passes by panels and chunks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "engines/cpu/targets.hpp"
#include "raggeddnn/tensor/half.hpp"

namespace check {

using namespace raggeddnn::cpu;

inline constexpr double INFINITE = std::numeric_limits<double>::infinity();
inline constexpr int64_t OPEN = int64_t{1} << 40;
inline int failures = 0;

inline void fail(const std::string& what) {
    ++failures;
    if (failures <= 20) std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

inline const char* name_of(Element element) {
    const char* names[] = {"float", "bfloat16", "half"};
    return names[static_cast<int>(element)];
}

// Rows of elements, a few elements apart, after a few others; all but the rows is NaN.
class Matrix {
public:
    Matrix(Element element, int64_t rows, int64_t width, int64_t gap = 3)
        : element_(element), rows_(rows), width_(width), stride_(width + gap) {
        bytes_.assign(static_cast<size_t>((BEFORE + rows * stride_) * bytes_of(element)), 0xff);
    }

    double get(int64_t row, int64_t col) const {
        const char* at = address(row, col);
        if (element_ == Element::FLOAT32) return read<float>(at);
        const auto bits = read<uint16_t>(at);
        return element_ == Element::BFLOAT16 ? raggeddnn::bfloat16_bits_to_float(bits)
                                             : raggeddnn::half_bits_to_float(bits);
    }
    void set(int64_t row, int64_t col, double value) {
        char* at = address(row, col);
        if (element_ == Element::FLOAT32) return write(at, static_cast<float>(value));
        write(at, element_ == Element::BFLOAT16 ? raggeddnn::double_to_bfloat16_bits(value)
                                                : raggeddnn::double_to_half_bits(value));
    }
    void set_bits(int64_t row, int64_t col, uint32_t bits) {
        if (element_ == Element::FLOAT32) return write(address(row, col), bits);
        write(address(row, col), static_cast<uint16_t>(bits));
    }
    void fill_normal(std::mt19937& random) {
        std::normal_distribution<double> normal;
        for (int64_t row = 0; row < rows_; ++row) {
            for (int64_t col = 0; col < width_; ++col) set(row, col, normal(random));
        }
    }

    // Whether everything outside of the rows still is as it was made.
    bool is_untouched_outside() const {
        Matrix copy = *this;
        const std::vector<char> row(static_cast<size_t>(width_ * bytes_of(element_)), '\xff');
        for (int64_t i = 0; i < rows_; ++i) std::memcpy(copy.address(i, 0), row.data(), row.size());
        return std::all_of(copy.bytes_.begin(), copy.bytes_.end(),
                           [](char byte) { return byte == '\xff'; });
    }

    Rows as_rows() { return {address(0, 0), stride_}; }
    int64_t stride() const { return stride_; }
    int64_t rows() const { return rows_; }
    int64_t width() const { return width_; }
    Element element() const { return element_; }

private:
    static constexpr int64_t BEFORE = 5;  // elements

    template <class T>
    static T read(const char* at) {
        T value;
        std::memcpy(&value, at, sizeof(T));
        return value;
    }
    template <class T>
    static void write(char* at, T value) {
        std::memcpy(at, &value, sizeof(T));
    }
    char* address(int64_t row, int64_t col) {
        return bytes_.data() + (BEFORE + row * stride_ + col) * bytes_of(element_);
    }
    const char* address(int64_t row, int64_t col) const {
        return const_cast<Matrix*>(this)->address(row, col);
    }

    Element element_;
    int64_t rows_;
    int64_t width_;
    int64_t stride_;
    std::vector<char> bytes_;
};

// Memory that kernels state the size of.
class Scratch {
public:
    explicit Scratch(int64_t bytes)
        : data_(std::aligned_alloc(MEMORY_ALIGNMENT, static_cast<size_t>(bytes))) {
        std::memset(data_, 0xff, static_cast<size_t>(bytes));
    }
    ~Scratch() { std::free(data_); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    void* data() const { return data_; }

private:
    void* data_;
};

// All rows of a head.
inline void run_forward(const KernelSet& set, const ForwardHead& head) {
    const Scratch scratch(set.forward_scratch(head.width, head.value_width));
    const int64_t step = set.panel_rows * set.forward_panels;
    for (int64_t row = 0; row < head.rows; row += step) {
        set.forward(head, row, std::min(step, head.rows - row), scratch.data());
    }
}

// All of dq, dk and dv of a head.
inline void run_backward(const KernelSet& set, const BackwardHead& head, Matrix& dk, Matrix& dv) {
    const Scratch scratch(set.backward_scratch(head.width, head.value_width));
    const int64_t dk_stride = set.gradient_stride(head.width);
    const int64_t dv_stride = set.gradient_stride(head.value_width);
    for (int64_t begin = 0; begin < head.keys; begin += CHUNK_KEYS) {
        const KeyChunk chunk = {begin, std::min(head.keys, begin + CHUNK_KEYS), begin / CHUNK_KEYS};
        const int64_t count = chunk.end - chunk.begin;
        std::vector<float> dk_sums(static_cast<size_t>(count * dk_stride));
        std::vector<float> dv_sums(static_cast<size_t>(count * dv_stride));
        for (int64_t row = 0; row < head.rows; row += set.panel_rows) {
            set.backward_panel(head, row, chunk, {dk_sums.data(), dv_sums.data()}, scratch.data());
        }
        const auto store = [&](Matrix& to, const std::vector<float>& sums, int64_t stride,
                               float factor) {
            Rows rows = to.as_rows();
            rows.data =
                static_cast<char*>(rows.data) + begin * rows.stride * bytes_of(to.element());
            set.store_gradients(sums.data(), stride, factor, to.element(),
                                static_cast<int32_t>(to.width()), count, rows);
        };
        store(dk, dk_sums, dk_stride, head.scale);
        store(dv, dv_sums, dv_stride, 1.0f);
    }
}

}  // namespace check
