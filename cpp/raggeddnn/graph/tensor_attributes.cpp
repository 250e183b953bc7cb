#include "raggeddnn/graph/tensor_attributes.hpp"

#include <utility>

#include "raggeddnn/base/log.hpp"
#include "raggeddnn/schema/data_type_map.hpp"

namespace raggeddnn {

namespace {

using schema::TensorValue;

// Puts a scalar into the wire's union and says which data type it has. HALF and BFLOAT16 travel
// widened to float, UINT8 in the member made for 8-bit floats.
struct StoreValue {
    schema::TensorValueUnion& value;

    DataType operator()(std::monostate) const { return DataType::NOT_SET; }
    DataType operator()(double v) const { return put(schema::Float64Value(v), DataType::DOUBLE); }
    DataType operator()(float v) const { return put(schema::Float32Value(v), DataType::FLOAT); }
    DataType operator()(half v) const {
        return put(schema::Float16Value(static_cast<float>(v)), DataType::HALF);
    }
    DataType operator()(bfloat16 v) const {
        return put(schema::BFloat16Value(static_cast<float>(v)), DataType::BFLOAT16);
    }
    DataType operator()(uint8_t v) const { return put(schema::Float8Value(v), DataType::UINT8); }
    DataType operator()(int32_t v) const { return put(schema::Int32Value(v), DataType::INT32); }
    DataType operator()(int64_t v) const { return put(schema::Int64Value(v), DataType::INT64); }
    DataType operator()(bool v) const { return put(schema::BoolValue(v), DataType::BOOLEAN); }

    template <class Member>
    DataType put(Member member, DataType type) const {
        value.Set(std::move(member));
        return type;
    }
};

}  // namespace

void TensorAttributes::note_change(const char* setter) const {
    if (is_built_) {
        log(LogLevel::WARN, setter, " on ", label(),
            " after its graph was built: the built plan keeps what it was built with");
    }
}

TensorAttributes& TensorAttributes::set_name(std::string name) {
    note_change("set_name");
    table_.name = std::move(name);
    return *this;
}

TensorAttributes& TensorAttributes::set_uid(int64_t uid) {
    note_change("set_uid");
    stated_.uid = uid;
    table_.uid = uid;
    has_uid_ = true;
    return *this;
}

TensorAttributes& TensorAttributes::clear_uid() {
    note_change("clear_uid");
    stated_.uid.reset();
    table_.uid = 0;
    has_uid_ = false;
    return *this;
}

TensorAttributes& TensorAttributes::set_dim(std::vector<int64_t> dim) {
    note_change("set_dim");
    stated_.dims = dim;
    table_.dims = std::move(dim);
    return *this;
}

TensorAttributes& TensorAttributes::set_stride(std::vector<int64_t> stride) {
    note_change("set_stride");
    stated_.strides = stride;
    table_.strides = std::move(stride);
    return *this;
}

TensorAttributes& TensorAttributes::set_data_type(DataType type) {
    note_change("set_data_type");
    stated_.data_type = schema::to_wire(type);
    table_.data_type = stated_.data_type;
    return *this;
}

TensorAttributes& TensorAttributes::set_alignment(int64_t alignment) {
    note_change("set_alignment");
    table_.alignment = alignment;
    return *this;
}

TensorAttributes& TensorAttributes::set_is_virtual(bool is_virtual) {
    note_change("set_is_virtual");
    table_.virtual_ = is_virtual;
    return *this;
}

TensorAttributes& TensorAttributes::set_ragged_offset(TensorPtr aux) {
    note_change("set_ragged_offset");
    stated_.ragged_offset = aux;
    ragged_offset_ = std::move(aux);
    // One that was chosen belongs to the offsets that were chosen.
    table_.ragged_offset_multiplier = stated_.ragged_offset_multiplier;
    return *this;
}

TensorAttributes& TensorAttributes::set_ragged_offset_multiplier(int64_t multiplier) {
    note_change("set_ragged_offset_multiplier");
    stated_.ragged_offset_multiplier = multiplier;
    table_.ragged_offset_multiplier = multiplier;
    return *this;
}

TensorAttributes& TensorAttributes::store(const ValueVariant& value) {
    note_change("set_value");
    stated_.data_type = schema::to_wire(std::visit(StoreValue{table_.value}, value));
    table_.data_type = stated_.data_type;
    table_.dims = stated_.dims = {1};
    table_.strides = stated_.strides = {1};
    table_.is_runtime_pass_by_value = false;
    return *this;
}

TensorAttributes& TensorAttributes::set_compile_time_constant(const pass_by_values_t& value) {
    return std::holds_alternative<std::monostate>(value) ? *this : store(value);
}

TensorAttributes& TensorAttributes::set_as_runtime_parameter() {
    note_change("set_as_runtime_parameter");
    table_.value.Reset();
    table_.is_runtime_pass_by_value = true;
    if (stated_.dims.empty()) {
        table_.dims = stated_.dims = {1};
        table_.strides = stated_.strides = {1};
    }
    return *this;
}

TensorAttributes& TensorAttributes::set_is_pass_by_value(bool is_runtime) {
    note_change("set_is_pass_by_value");
    table_.is_runtime_pass_by_value = is_runtime;
    return *this;
}

void TensorAttributes::show(const Choice& choice) {
    table_.uid = choice.uid.value_or(0);
    has_uid_ = choice.uid.has_value();
    table_.dims = choice.dims;
    table_.strides = choice.strides;
    table_.data_type = choice.data_type;
    table_.ragged_offset_multiplier = choice.ragged_offset_multiplier;
    ragged_offset_ = choice.ragged_offset;
}

void TensorAttributes::settle() {
    stated_ = {has_uid_ ? std::optional(table_.uid) : std::nullopt,
               table_.dims,
               table_.strides,
               table_.data_type,
               ragged_offset_,
               table_.ragged_offset_multiplier};
}

DataType TensorAttributes::get_data_type() const { return schema::from_wire(table_.data_type); }
DataType TensorAttributes::stated_data_type() const { return schema::from_wire(stated_.data_type); }

int64_t TensorAttributes::get_volume() const {
    int64_t volume = 1;
    for (const int64_t d : table_.dims) {
        if (__builtin_mul_overflow(volume, d, &volume)) {
            invalid(label(), ": its dims multiply to more elements than 2^63");
        }
    }
    return volume;
}

TensorAttributes::ValueVariant TensorAttributes::get_value_variant() const {
    const schema::TensorValueUnion& v = table_.value;
    switch (v.type) {
        case TensorValue::Float32Value: return v.AsFloat32Value()->value();
        case TensorValue::Float16Value: return half(v.AsFloat16Value()->value());
        case TensorValue::BFloat16Value: return bfloat16(v.AsBFloat16Value()->value());
        case TensorValue::Float8Value: return v.AsFloat8Value()->value();
        case TensorValue::Int32Value: return v.AsInt32Value()->value();
        case TensorValue::Float64Value: return v.AsFloat64Value()->value();
        case TensorValue::Int64Value: return v.AsInt64Value()->value();
        case TensorValue::BoolValue: return v.AsBoolValue()->value();
        default: return std::monostate{};
    }
}

std::optional<TensorAttributes::pass_by_values_t> TensorAttributes::get_pass_by_value() const {
    if (!table_.is_runtime_pass_by_value || !has_value()) return std::nullopt;
    return get_value_variant();
}

std::optional<TensorAttributes::pass_by_values_t> TensorAttributes::get_compile_time_constant()
    const {
    if (!get_has_compile_time_constant()) return std::nullopt;
    return get_value_variant();
}

std::string TensorAttributes::label() const {
    const std::string uid = has_uid_ ? "uid " + std::to_string(table_.uid) : std::string("no uid");
    return table_.name.empty() ? "tensor with " + uid
                               : "tensor '" + table_.name + "' (" + uid + ")";
}

namespace {

std::string text_of(const std::vector<int64_t>& values) {
    std::string text = "[";
    for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
    return text + "]";
}

}  // namespace

Error TensorAttributes::validate() const {
    return as_error([this] {
        const std::string who = label();
        const bool is_virtual = table_.virtual_;
        if (is_virtual && table_.is_runtime_pass_by_value) {
            invalid(who,
                    " is virtual and runtime pass-by-value, expected at most one: a virtual "
                    "tensor is an edge inside the graph");
        }
        if (is_virtual && has_value()) {
            invalid(who,
                    " is virtual and carries a value, expected at most one: a virtual tensor is "
                    "an edge inside the graph");
        }
        if (table_.alignment < 1) {
            invalid(who, " has alignment ", table_.alignment, ", expected >= 1");
        }
        if (table_.dims.empty()) {
            fail(ErrorCode::ATTRIBUTE_NOT_SET, who, " has no dims, expected set_dim");
        }
        if (table_.dims.size() != table_.strides.size()) {
            invalid(who, " has dims ", text_of(table_.dims), " and strides ",
                    text_of(table_.strides), ", expected as many strides as dims");
        }
        for (const int64_t d : table_.dims) {
            if (d < 0) invalid(who, " has dims ", text_of(table_.dims), ", expected each >= 0");
        }
        const int64_t volume = get_volume();
        if (get_is_pass_by_value() && volume != 1) {
            invalid(who, " is pass-by-value with dims ", text_of(table_.dims),
                    ", expected one element");
        }
        if (has_value() && schema::data_type_of_value(table_.value.type) != get_data_type()) {
            invalid(who, " carries a value of type ",
                    to_string(schema::data_type_of_value(table_.value.type)), " and has data type ",
                    to_string(get_data_type()),
                    ", expected the same: set the type before the value");
        }
        if (get_data_type() == DataType::NOT_SET) {
            fail(ErrorCode::ATTRIBUTE_NOT_SET, who,
                 " has no data type, expected set_data_type or the "
                 "graph's io_data_type");
        }
        if (table_.is_runtime_pass_by_value && !is_runtime_scalar_type(get_data_type())) {
            invalid(who, " is a runtime scalar of type ", to_string(get_data_type()), ", expected ",
                    RUNTIME_SCALAR_TYPES);
        }
        if (table_.ragged_offset_multiplier < 1) {
            invalid(who, " has ragged_offset_multiplier ", table_.ragged_offset_multiplier,
                    ", expected >= 1");
        }
        if (table_.ragged_offset_multiplier != 1 && !ragged_offset_) {
            invalid(who, " has ragged_offset_multiplier ", table_.ragged_offset_multiplier,
                    " and no ragged offset, expected set_ragged_offset");
        }
    });
}

}  // namespace raggeddnn
