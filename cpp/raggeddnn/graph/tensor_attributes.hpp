// A tensor of a graph as a user states it: cuDNN's method names over the wire's own table. The
// three by-value states are two stored facts, the runtime flag and the presence of a value; every
// getter derives from them (runtime pass-by-value document, 4.2).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "raggeddnn/base/api.hpp"
#include "raggeddnn/base/error.hpp"
#include "raggeddnn/schema/tensor_attributes_generated.h"
#include "raggeddnn/tensor/data_type.hpp"
#include "raggeddnn/tensor/half.hpp"

namespace raggeddnn {

enum class ScalarType { RUNTIME_PARAM, COMPILE_TIME_CONST };

class TensorAttributes;
using TensorPtr = std::shared_ptr<TensorAttributes>;

class RAGGEDDNN_API TensorAttributes {
public:
    using ValueVariant = std::variant<std::monostate, double, float, half, bfloat16, uint8_t,
                                      int32_t, int64_t, bool>;
    using pass_by_values_t = ValueVariant;

    template <class T>
    static constexpr bool is_scalar =
        std::is_same_v<T, double> || std::is_same_v<T, float> || std::is_same_v<T, half> ||
        std::is_same_v<T, bfloat16> || std::is_same_v<T, uint8_t> || std::is_same_v<T, int32_t> ||
        std::is_same_v<T, int64_t> || std::is_same_v<T, bool>;

    TensorAttributes() = default;
    // A compile-time constant.
    template <class T>
        requires is_scalar<T>
    explicit TensorAttributes(const T& scalar) {
        set_value(scalar);
    }
    // RUNTIME_PARAM: a runtime scalar whose default is `scalar`.
    template <class T>
        requires is_scalar<T>
    TensorAttributes(const T& scalar, ScalarType type) {
        set_value(scalar);
        set_is_pass_by_value(type == ScalarType::RUNTIME_PARAM);
    }

    TensorAttributes& set_name(std::string name);
    TensorAttributes& set_uid(int64_t uid);
    TensorAttributes& clear_uid();
    TensorAttributes& set_dim(std::vector<int64_t> dim);
    TensorAttributes& set_stride(std::vector<int64_t> stride);
    TensorAttributes& set_data_type(DataType type);
    // Least alignment of the base address, in bytes (default 16).
    TensorAttributes& set_alignment(int64_t alignment);
    TensorAttributes& set_is_virtual(bool is_virtual);
    TensorAttributes& set_output(bool is_output) { return set_is_virtual(!is_output); }

    // `aux`: [B+1, 1, 1, 1] (or [B+1]) INT32 or INT64 offsets; null: not ragged.
    TensorAttributes& set_ragged_offset(TensorPtr aux);
    // Element offset = stored offset * multiplier.
    TensorAttributes& set_ragged_offset_multiplier(int64_t multiplier);

    // A compile-time constant: stores the value, sets dims and strides {1} and the data type,
    // clears the runtime flag.
    template <class T>
        requires is_scalar<T>
    TensorAttributes& set_value(const T& value) {
        return store(ValueVariant(value));
    }
    // The same from a variant; std::monostate does nothing.
    TensorAttributes& set_compile_time_constant(const pass_by_values_t& value);
    // A runtime scalar supplied at execute: sets the flag, clears any value.
    TensorAttributes& set_as_runtime_parameter();
    // Sets the runtime flag and touches nothing else.
    TensorAttributes& set_is_pass_by_value(bool is_runtime);

    const std::string& get_name() const { return table_.name; }
    bool has_uid() const { return has_uid_; }
    int64_t get_uid() const { return table_.uid; }
    const std::vector<int64_t>& get_dim() const { return table_.dims; }
    const std::vector<int64_t>& get_stride() const { return table_.strides; }
    DataType get_data_type() const;
    // The type that a setter gave; get_data_type may be one that a graph chose.
    DataType stated_data_type() const;
    int64_t get_alignment() const { return table_.alignment; }
    bool get_is_virtual() const { return table_.virtual_; }
    TensorPtr get_ragged_offset() const { return ragged_offset_; }
    bool has_ragged_offset() const { return ragged_offset_ != nullptr; }
    int64_t get_ragged_offset_multiplier() const { return table_.ragged_offset_multiplier; }
    // Product of dims; 1 for a scalar without dims.
    int64_t get_volume() const;

    // The runtime default only.
    std::optional<pass_by_values_t> get_pass_by_value() const;
    template <class T>
    std::optional<T> get_pass_by_value() const {
        return typed<T>(get_pass_by_value());
    }
    std::optional<pass_by_values_t> get_compile_time_constant() const;
    template <class T>
    std::optional<T> get_compile_time_constant() const {
        return typed<T>(get_compile_time_constant());
    }
    // Any of the three by-value states.
    bool get_is_pass_by_value() const { return table_.is_runtime_pass_by_value || has_value(); }
    bool get_has_compile_time_constant() const {
        return !table_.is_runtime_pass_by_value && has_value();
    }
    bool get_is_runtime_pass_by_value() const { return table_.is_runtime_pass_by_value; }
    // The stored value whatever the flag; std::monostate: none.
    ValueVariant get_value_variant() const;

    // INVALID_VALUE or ATTRIBUTE_NOT_SET with a message that names the tensor, got and expected.
    Error validate() const;

    // Set when a graph took its final form: later setters change this object alone.
    bool is_built() const { return is_built_; }
    // "tensor 'q' (uid 3)", for messages.
    std::string label() const;

private:
    friend class Graph;

    // What a graph chooses where the author left it out.
    struct Choice {
        std::optional<int64_t> uid;
        std::vector<int64_t> dims;
        std::vector<int64_t> strides;
        schema::DataType data_type = schema::DataType::UNSET;
        TensorPtr ragged_offset;
        int64_t ragged_offset_multiplier = 1;
    };
    // Puts it where getters look; `stated_` stays.
    void show(const Choice& choice);
    // Everything that is shown is from now on as if its author had set it.
    void settle();

    bool has_value() const { return table_.value.type != schema::TensorValue::NONE; }
    TensorAttributes& store(const ValueVariant& value);
    void note_change(const char* setter) const;

    template <class T>
    static std::optional<T> typed(const std::optional<pass_by_values_t>& value) {
        if (!value || !std::holds_alternative<T>(*value)) return std::nullopt;
        return std::get<T>(*value);
    }

    // Getters read these, setters write them and `stated_`, and graphs read `stated_` alone: what
    // an earlier look at a graph showed has no part in the next.
    schema::TensorAttributesT table_;
    TensorPtr ragged_offset_;
    bool has_uid_ = false;
    Choice stated_;
    bool is_built_ = false;
};

}  // namespace raggeddnn
