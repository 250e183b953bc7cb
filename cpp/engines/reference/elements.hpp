// One element of memory of any type, as a double or as an exact integer; and where the elements of
// an operand are during an execute.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>

#include "raggeddnn/plugin/buffers.hpp"
#include "raggeddnn/schema/operand.hpp"
#include "raggeddnn/tensor/element_type.hpp"

namespace raggeddnn::reference {

// Holds every product, square and sum of two INT64 values.
__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

// Out of range: the nearest end of it. Doubles round to nearest, ties to even; NaN gives 0.
template <class Integer, class Number>
Integer saturated(Number value) {
    constexpr Integer low = std::numeric_limits<Integer>::min();
    constexpr Integer high = std::numeric_limits<Integer>::max();
    if constexpr (std::is_same_v<Number, double>) {
        if (std::isnan(value)) return 0;
        value = std::nearbyint(value);
        if (value >= static_cast<double>(high)) return high;
        if (value <= static_cast<double>(low)) return low;
    } else {
        if (value > high) return high;
        if (value < low) return low;
    }
    return static_cast<Integer>(value);
}

// A sum of products of integers, exact: each product has up to 127 bits, and so their sum has no
// room in Wide. The halves of the products are added apart; of 2^63 of them neither sum overflows.
class ExactSum {
public:
    void add_product(Wide a, Wide b) {
        const Wide product = a * b;
        high_ += product >> 64;
        low_ += static_cast<uint64_t>(product);
    }

    // Out of range: the nearest end of it.
    Wide value() const {
        const Wide high = high_ + static_cast<Wide>(low_ >> 64);
        if (high > std::numeric_limits<int64_t>::max()) return std::numeric_limits<Wide>::max();
        if (high < std::numeric_limits<int64_t>::min()) return std::numeric_limits<Wide>::min();
        return (high << 64) + static_cast<uint64_t>(low_);
    }

private:
    Wide high_ = 0;
    UnsignedWide low_ = 0;
};

// The same of reals: rounded after each step.
class RealSum {
public:
    void add_product(double a, double b) { sum_ += a * b; }
    double value() const { return sum_; }

private:
    double sum_ = 0;
};

// Memory of one type. Number is double or Wide.
struct Elements {
    DataType type = DataType::NOT_SET;
    void* memory = nullptr;

    template <class Number = double>
    Number get(int64_t index) const {
        return with_element_type(type, [&]<class T>(std::type_identity<T>) -> Number {
            if constexpr (std::is_same_v<T, bool>) {
                return static_cast<const uint8_t*>(memory)[index] != 0 ? 1 : 0;
            } else if constexpr (IS_REAL<T> && !std::floating_point<T>) {
                return static_cast<Number>(
                    static_cast<double>(static_cast<const T*>(memory)[index]));
            } else {
                return static_cast<Number>(static_cast<const T*>(memory)[index]);
            }
        });
    }

    // Rounds once.
    template <class Number>
    void set(int64_t index, Number value) const {
        with_element_type(type, [&]<class T>(std::type_identity<T>) {
            if constexpr (std::is_same_v<T, bool>) {
                static_cast<uint8_t*>(memory)[index] = value != 0 ? 1 : 0;
            } else if constexpr (IS_REAL<T>) {
                static_cast<T*>(memory)[index] = static_cast<T>(static_cast<double>(value));
            } else {
                static_cast<T*>(memory)[index] = saturated<T>(value);
            }
        });
    }
};

// A pass-by-value scalar as memory of its own type, so that it reads like any operand. A baked
// value wins over the pack.
class ScalarMemory {
public:
    explicit ScalarMemory(const schema::TensorView& tensor)
        : uid_(tensor.uid()), label_(tensor.label()), type_(tensor.data_type()) {
        plugin::ScalarOperand::make(tensor);  // refuses types without numbers
        if (!tensor.has_value()) return;
        baked_.emplace();
        const Elements element{type_, baked_->data()};
        if (const auto integer = tensor.value_as_integer()) {
            element.set(0, static_cast<Wide>(*integer));
        } else {
            element.set(0, *tensor.value_as_double());
        }
    }

    struct alignas(8) Bytes : std::array<unsigned char, 8> {};

    Bytes resolve(const plugin::Buffers& buffers) const {
        if (baked_) return *baked_;
        Bytes bytes{};
        std::memcpy(bytes.data(), buffers.find_device_buffer(uid_, label_), bytes_of(type_, 1));
        return bytes;
    }

private:
    int64_t uid_;
    std::string label_;
    DataType type_;
    std::optional<Bytes> baked_;
};

// The memory of a tensor; null where none of its elements is touched.
inline Elements find_elements(const schema::Operand& operand, const plugin::Buffers& buffers,
                              bool is_touched = true) {
    if (!is_touched) return {operand.type, nullptr};
    return {operand.type, buffers.find_device_buffer(operand.uid, operand.label)};
}

inline Elements find_elements(const std::optional<schema::Operand>& operand,
                              const plugin::Buffers& buffers, bool is_touched = true) {
    return operand ? find_elements(*operand, buffers, is_touched) : Elements{};
}

}  // namespace raggeddnn::reference
