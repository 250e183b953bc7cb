// The variant pack as an engine receives it, and the scalars in it.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/plugin/engine_plugin_api.h"
#include "raggeddnn/schema/graph_view.hpp"
#include "raggeddnn/tensor/half.hpp"

namespace raggeddnn::plugin {

// Borrowed for the duration of one execute.
class Buffers {
public:
    Buffers(const hipdnnPluginDeviceBuffer_t* entries, uint32_t count)
        : entries_(entries), count_(count) {}

    const hipdnnPluginDeviceBuffer_t* begin() const { return entries_; }
    const hipdnnPluginDeviceBuffer_t* end() const { return entries_ + count_; }

    void* find(int64_t uid) const {
        for (uint32_t i = 0; i < count_; ++i) {
            if (entries_[i].uid == uid) return entries_[i].ptr;
        }
        return nullptr;
    }

    // The buffer of a tensor that the plan needs. INVALID_VALUE when the pack lacks it or holds a
    // null pointer: device buffers and runtime scalars alike.
    void* find_device_buffer(int64_t uid, const std::string& label) const {
        void* ptr = find(uid);
        if (!ptr) {
            invalid("variant pack: no pointer for ", label, " (uid ", uid, "), expected one");
        }
        return ptr;
    }

private:
    const hipdnnPluginDeviceBuffer_t* entries_;
    uint32_t count_;
};

// Reads one host scalar of the given type; memory needs no alignment.
inline double read_scalar(DataType type, const void* memory) {
    const auto load = [memory]<class T>(T) {
        T value;
        std::memcpy(&value, memory, sizeof(T));
        return value;
    };
    switch (type) {
        case DataType::DOUBLE: return load(double{});
        case DataType::FLOAT: return static_cast<double>(load(float{}));
        case DataType::HALF: return half_bits_to_float(load(uint16_t{}));
        case DataType::BFLOAT16: return bfloat16_bits_to_float(load(uint16_t{}));
        case DataType::INT32: return load(int32_t{});
        case DataType::INT64: return static_cast<double>(load(int64_t{}));
        case DataType::BOOLEAN: return load(uint8_t{}) != 0 ? 1.0 : 0.0;
        default:
            invalid("runtime scalar of type ", to_string(type), ", expected ",
                    RUNTIME_SCALAR_TYPES);
    }
}

// The same of an integer, with all its bits.
inline int64_t read_integer(DataType type, const void* memory) {
    if (type == DataType::INT64) {
        int64_t wide = 0;
        std::memcpy(&wide, memory, sizeof(wide));
        return wide;
    }
    if (type != DataType::INT32) {
        invalid("integer of type ", to_string(type), ", expected INT32 or INT64");
    }
    int32_t narrow = 0;
    std::memcpy(&narrow, memory, sizeof(narrow));
    return narrow;
}

// The integer that a graph states for a number, if it states one. `label` names it in messages.
inline std::optional<int64_t> baked_integer(const schema::TensorView& tensor,
                                            const std::string& label) {
    const std::optional<int64_t> value = tensor.value_as_integer();
    if (tensor.has_value() && !value) {
        invalid(label, " holds a value that is no integer, expected one");
    }
    return value;
}

// A scalar operand: made when the plan is built, resolved at each execute. A baked value wins over
// whatever the pack holds (section 4.9 of the runtime pass-by-value document).
class ScalarOperand {
public:
    static ScalarOperand make(const schema::TensorView& tensor) {
        ScalarOperand s;
        s.uid_ = tensor.uid();
        s.label_ = tensor.name().empty() ? "scalar" : "scalar '" + std::string(tensor.name()) + "'";
        s.type_ = tensor.data_type();
        s.baked_ = tensor.value_as_double();
        if (tensor.has_value() && !s.baked_) {
            invalid(s.label_, " is a constant of type ", to_string(s.type_),
                    ", expected a type whose values are numbers");
        }
        if (!s.baked_ && tensor.is_runtime_pass_by_value() && !is_runtime_scalar_type(s.type_)) {
            invalid(s.label_, " is a runtime scalar of type ", to_string(s.type_), ", expected ",
                    RUNTIME_SCALAR_TYPES);
        }
        return s;
    }

    double resolve(const Buffers& buffers) const {
        return baked_ ? *baked_ : read_scalar(type_, buffers.find_device_buffer(uid_, label_));
    }

private:
    int64_t uid_ = 0;
    std::string label_;
    DataType type_ = DataType::NOT_SET;
    std::optional<double> baked_;
};

}  // namespace raggeddnn::plugin
