#include "raggeddnn/backend/c_api/engine_descriptors.hpp"
#include "raggeddnn/backend/c_api/fields.hpp"

namespace raggeddnn::c_api {

namespace {

using schema::KnobConstraint;
using schema::KnobValue;

// ---- a knob's value: its attribute type is that of what it holds ----

void set_value(Descriptor& descriptor, const Input& input) {
    schema::KnobValueUnion& value = static_cast<KnobChoiceDescriptor&>(descriptor).table.value;
    switch (static_cast<int>(input.type)) {
        case HIPDNN_TYPE_INT64: {
            schema::IntValueT integer;
            integer.value = input.one<int64_t>();
            return value.Set(std::move(integer));
        }
        case HIPDNN_TYPE_DOUBLE: {
            schema::FloatValueT real;
            real.value = input.one<double>();
            return value.Set(std::move(real));
        }
        case HIPDNN_TYPE_CHAR: {
            schema::StringValueT text;
            text.value = input.text();
            return value.Set(std::move(text));
        }
        default:
            bad_param(input.row.label, " got attribute type ", attribute_type_name(input.type),
                      ", expected INT64, DOUBLE or CHAR");
    }
}

hipdnnBackendAttributeType_t type_of(const schema::KnobValueUnion& value) {
    switch (value.type) {
        case KnobValue::FloatValue: return HIPDNN_TYPE_DOUBLE;
        case KnobValue::StringValue: return HIPDNN_TYPE_CHAR;
        default: return HIPDNN_TYPE_INT64;
    }
}

void expect_type(const Output& output, hipdnnBackendAttributeType_t type) {
    if (output.type != type) {
        bad_param(output.row.label, " got attribute type ", attribute_type_name(output.type),
                  ", expected ", attribute_type_name(type), ", which its value has");
    }
}

void put_value(const schema::KnobValueUnion& value, const Output& output) {
    expect_type(output, type_of(value));
    if (const auto* integer = value.AsIntValue()) return output.put_one(integer->value);
    if (const auto* real = value.AsFloatValue()) return output.put_one(real->value);
    if (const auto* text = value.AsStringValue()) return output.put_text(text->value);
    output.put_none();
}

void get_value(const Descriptor& descriptor, const Output& output) {
    put_value(static_cast<const KnobChoiceDescriptor&>(descriptor).table.value, output);
}

void set_id(Descriptor& descriptor, const Input& input) {
    static_cast<KnobChoiceDescriptor&>(descriptor).table.knob_id = input.text();
}

void get_id(const Descriptor& descriptor, const Output& output) {
    output.put_text(static_cast<const KnobChoiceDescriptor&>(descriptor).table.knob_id);
}

constexpr Attribute CHOICE_ROWS[] = {
    {RAGGEDDNN_ATTRIBUTE(KNOB_CHOICE_KNOB_TYPE), HIPDNN_TYPE_CHAR, set_id, get_id, Need::REQUIRED},
    {RAGGEDDNN_ATTRIBUTE(KNOB_CHOICE_KNOB_VALUE), HIPDNN_TYPE_INT64, set_value, get_value,
     Need::REQUIRED, true},
};

// ---- what an engine says of a knob ----

const schema::KnobT& knob_of(const Descriptor& descriptor) {
    return static_cast<const KnobInfoDescriptor&>(descriptor).table;
}

void get_default(const Descriptor& descriptor, const Output& output) {
    put_value(knob_of(descriptor).default_value, output);
}

void get_default_type(const Descriptor& descriptor, const Output& output) {
    output.put_one(static_cast<int64_t>(type_of(knob_of(descriptor).default_value)));
}

// The bound that an integer or a floating-point constraint has; none without a constraint.
template <auto OfInteger, auto OfReal>
void get_bound(const Descriptor& descriptor, const Output& output) {
    const schema::KnobConstraintUnion& constraint = knob_of(descriptor).constraint;
    if (const auto* integer = constraint.AsIntConstraint()) {
        expect_type(output, HIPDNN_TYPE_INT64);
        output.put_one(integer->*OfInteger);
    } else if (const auto* real = constraint.AsFloatConstraint()) {
        expect_type(output, HIPDNN_TYPE_DOUBLE);
        output.put_one(real->*OfReal);
    } else {
        output.put_none();
    }
}

void get_step(const Descriptor& descriptor, const Output& output) {
    const auto* integer = knob_of(descriptor).constraint.AsIntConstraint();
    integer ? output.put_one(integer->step) : output.put_none();
}

void get_valid_integers(const Descriptor& descriptor, const Output& output) {
    const auto* integer = knob_of(descriptor).constraint.AsIntConstraint();
    integer ? output.put_many(integer->valid_values) : output.put_none();
}

// One after the other, each with its terminator.
void get_valid_texts(const Descriptor& descriptor, const Output& output) {
    std::vector<char> flat;
    if (const auto* text = knob_of(descriptor).constraint.AsStringConstraint()) {
        for (const std::string& value : text->valid_values) {
            flat.insert(flat.end(), value.c_str(), value.c_str() + value.size() + 1);
        }
    }
    output.put_many(flat);
}

void get_max_length(const Descriptor& descriptor, const Output& output) {
    const auto* text = knob_of(descriptor).constraint.AsStringConstraint();
    text ? output.put_one(static_cast<int32_t>(text->max_length)) : output.put_none();
}

template <auto Member>
void get_knob_field(const Descriptor& descriptor, const Output& output) {
    Codec<ValueOf<Member>>::write(knob_of(descriptor).*Member, output);
}

using schema::FloatConstraintT;
using schema::IntConstraintT;

constexpr Attribute INFO_ROWS[] = {
    {RAGGEDDNN_ATTRIBUTE(KNOB_INFO_TYPE), HIPDNN_TYPE_CHAR, nullptr,
     get_knob_field<&schema::KnobT::knob_id>},
    {RAGGEDDNN_ATTRIBUTE(KNOB_INFO_MAXIMUM_VALUE), HIPDNN_TYPE_INT64, nullptr,
     get_bound<&IntConstraintT::max_value, &FloatConstraintT::max_value>, Need::OPTIONAL, true},
    {RAGGEDDNN_ATTRIBUTE(KNOB_INFO_MINIMUM_VALUE), HIPDNN_TYPE_INT64, nullptr,
     get_bound<&IntConstraintT::min_value, &FloatConstraintT::min_value>, Need::OPTIONAL, true},
    {RAGGEDDNN_ATTRIBUTE(KNOB_INFO_STRIDE), HIPDNN_TYPE_INT64, nullptr, get_step},
    {RAGGEDDNN_ATTRIBUTE(KNOB_INFO_DESCRIPTION), HIPDNN_TYPE_CHAR, nullptr,
     get_knob_field<&schema::KnobT::description>},
    {RAGGEDDNN_ATTRIBUTE(KNOB_INFO_DEFAULT_VALUE), HIPDNN_TYPE_INT64, nullptr, get_default,
     Need::OPTIONAL, true},
    {RAGGEDDNN_ATTRIBUTE(KNOB_INFO_DEPRECATED), HIPDNN_TYPE_BOOLEAN, nullptr,
     get_knob_field<&schema::KnobT::deprecated>},
    {RAGGEDDNN_ATTRIBUTE(KNOB_INFO_VALID_VALUES_INT), HIPDNN_TYPE_INT64, nullptr,
     get_valid_integers},
    {RAGGEDDNN_ATTRIBUTE(KNOB_INFO_VALID_VALUES_STRING), HIPDNN_TYPE_CHAR, nullptr,
     get_valid_texts},
    {RAGGEDDNN_ATTRIBUTE(KNOB_INFO_STRING_MAX_LENGTH), HIPDNN_TYPE_INT32, nullptr, get_max_length},
    {RAGGEDDNN_ATTRIBUTE(KNOB_INFO_DEFAULT_VALUE_TYPE), HIPDNN_TYPE_INT64, nullptr,
     get_default_type},
};

}  // namespace

KnobChoiceDescriptor::KnobChoiceDescriptor()
    : Descriptor(HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CHOICE_ROWS) {}

void KnobChoiceDescriptor::on_finalize() {
    if (table.knob_id.empty()) bad_param("KNOB_CHOICE_KNOB_TYPE is empty, expected a knob's id");
}

KnobInfoDescriptor::KnobInfoDescriptor()
    : Descriptor(HIPDNN_BACKEND_KNOB_INFO_DESCRIPTOR, INFO_ROWS) {}

std::shared_ptr<KnobInfoDescriptor> KnobInfoDescriptor::of_engine(const schema::KnobT& knob) {
    auto info = std::make_shared<KnobInfoDescriptor>();
    info->table = knob;
    info->mark_final();
    return info;
}

void KnobInfoDescriptor::on_finalize() {
    bad_param("a knob info descriptor is made by an engine (ENGINE_KNOB_INFO), not by a caller");
}

}  // namespace raggeddnn::c_api
