#include "raggeddnn/schema/reflect.hpp"

#include <algorithm>

#include "flatbuffers/flatbuffers.h"
#include "raggeddnn/base/error.hpp"
#include "raggeddnn/schema/engine_bfbs_generated.h"
#include "raggeddnn/schema/execution_plan_bfbs_generated.h"
#include "raggeddnn/schema/graph_and_plan_bfbs_generated.h"
#include "raggeddnn/schema/graph_bfbs_generated.h"

namespace raggeddnn::schema {

namespace {

using reflection::BaseType;

// Unions and vectors of offsets keep their index in `Type`, whichever it means.
const EnumInfo* enum_of(const reflection::Type& type,
                        const std::vector<std::unique_ptr<EnumInfo>>& enums) {
    const bool scalar_or_union =
        is_integer(type.base_type()) || type.base_type() == BaseType::Union;
    return scalar_or_union && type.index() >= 0 ? enums.at(type.index()).get() : nullptr;
}

const TypeInfo* object_of(const reflection::Type& type,
                          const std::vector<std::unique_ptr<TypeInfo>>& types) {
    const bool object = type.base_type() == BaseType::Obj || type.element() == BaseType::Obj;
    return object && type.index() >= 0 ? types.at(type.index()).get() : nullptr;
}

std::string without_namespace(const flatbuffers::String& name) {
    const std::string full = name.str();
    const size_t dot = full.rfind('.');
    return dot == std::string::npos ? full : full.substr(dot + 1);
}

// An integer of any width, widened; ULong beyond int64 wraps, which no schema here minds.
int64_t read_integer(BaseType type, const uint8_t* at) {
    switch (type) {
        case BaseType::Byte: return flatbuffers::ReadScalar<int8_t>(at);
        case BaseType::Short: return flatbuffers::ReadScalar<int16_t>(at);
        case BaseType::UShort: return flatbuffers::ReadScalar<uint16_t>(at);
        case BaseType::Int: return flatbuffers::ReadScalar<int32_t>(at);
        case BaseType::UInt: return flatbuffers::ReadScalar<uint32_t>(at);
        case BaseType::Long: return flatbuffers::ReadScalar<int64_t>(at);
        case BaseType::ULong: return static_cast<int64_t>(flatbuffers::ReadScalar<uint64_t>(at));
        default: return flatbuffers::ReadScalar<uint8_t>(at);  // UType, Bool, UByte
    }
}

double read_real(BaseType type, const uint8_t* at) {
    return type == BaseType::Float ? flatbuffers::ReadScalar<float>(at)
                                   : flatbuffers::ReadScalar<double>(at);
}

const uint8_t* follow(const uint8_t* at) {
    return at + flatbuffers::ReadScalar<flatbuffers::uoffset_t>(at);
}

std::string_view read_string(const uint8_t* at) {
    const auto* text = reinterpret_cast<const flatbuffers::String*>(at);
    return {text->c_str(), text->size()};
}

}  // namespace

size_t scalar_size(BaseType type) {
    switch (type) {
        case BaseType::UType:
        case BaseType::Bool:
        case BaseType::Byte:
        case BaseType::UByte: return 1;
        case BaseType::Short:
        case BaseType::UShort: return 2;
        case BaseType::Int:
        case BaseType::UInt:
        case BaseType::Float: return 4;
        case BaseType::Long:
        case BaseType::ULong:
        case BaseType::Double: return 8;
        default: return 0;
    }
}

bool is_real(BaseType type) { return type == BaseType::Float || type == BaseType::Double; }

bool is_integer(BaseType type) { return scalar_size(type) != 0 && !is_real(type); }

const EnumMember* EnumInfo::find(int64_t value) const {
    for (const EnumMember& member : members) {
        if (member.value == value) return &member;
    }
    return nullptr;
}

std::string EnumInfo::values() const {
    std::string text;
    if (members.size() > 8) {
        return message(members.front().value, " (", members.front().name, ") to ",
                       members.back().value, " (", members.back().name, ")");
    }
    for (const EnumMember& member : members) {
        if (!text.empty()) text += ", ";
        text += message(member.value, " (", member.name, ")");
    }
    return text;
}

const FieldInfo* TypeInfo::find(std::string_view field) const {
    for (const FieldInfo& info : fields) {
        if (info.name == field) return &info;
    }
    return nullptr;
}

int TypeInfo::slot_count() const { return fields.empty() ? 0 : fields.back().id + 1; }

Reflection::Reflection(const uint8_t* binary_schema) {
    const reflection::Schema& schema = *reflection::GetSchema(binary_schema);
    for (const auto* source : *schema.enums()) {
        enums_.push_back(std::make_unique<EnumInfo>());
        enums_.back()->name = without_namespace(*source->name());
    }
    for (const auto* source : *schema.objects()) {
        types_.push_back(std::make_unique<TypeInfo>());
        TypeInfo& type = *types_.back();
        type.name = without_namespace(*source->name());
        type.is_struct = source->is_struct();
        type.bytes = static_cast<size_t>(source->bytesize());
        type.alignment = static_cast<size_t>(source->minalign());
    }
    for (size_t i = 0; i < enums_.size(); ++i) {
        for (const auto* value : *schema.enums()->Get(static_cast<unsigned>(i))->values()) {
            const reflection::Type* member = value->union_type();
            const TypeInfo* type = member != nullptr ? object_of(*member, types_) : nullptr;
            enums_[i]->members.push_back({value->name()->str(), value->value(), type});
        }
    }
    for (size_t i = 0; i < types_.size(); ++i) {
        for (const auto* field : *schema.objects()->Get(static_cast<unsigned>(i))->fields()) {
            const reflection::Type& type = *field->type();
            // FlatBuffers calls every string, vector and table optional, too.
            const bool optional = field->optional() && scalar_size(type.base_type()) != 0;
            types_[i]->fields.push_back({field->name()->str(), field->id(), field->offset(),
                                         type.base_type(), type.element(), type.fixed_length(),
                                         enum_of(type, enums_), object_of(type, types_), optional,
                                         field->default_integer(), field->default_real()});
        }
        std::sort(types_[i]->fields.begin(), types_[i]->fields.end(),
                  [](const FieldInfo& a, const FieldInfo& b) { return a.id < b.id; });
    }
}

const Reflection& Reflection::graph() {
    static const Reflection reflection(GraphBinarySchema::data());
    return reflection;
}

const Reflection& Reflection::plan() {
    static const Reflection reflection(SerializedExecutionPlanBinarySchema::data());
    return reflection;
}

const Reflection& Reflection::engine() {
    static const Reflection reflection(EngineDetailsBinarySchema::data());
    return reflection;
}

const Reflection& Reflection::container() {
    static const Reflection reflection(SerializedGraphAndPlanBinarySchema::data());
    return reflection;
}

const TypeInfo& Reflection::type(std::string_view name) const {
    for (const auto& type : types_) {
        if (type->name == name) return *type;
    }
    fail(ErrorCode::INTERNAL_ERROR, "the embedded schema has no table ", name);
}

int64_t VectorView::integer(size_t index) const {
    return read_integer(field->element, data + index * scalar_size(field->element));
}

double VectorView::real(size_t index) const {
    return read_real(field->element, data + index * scalar_size(field->element));
}

std::string_view VectorView::string(size_t index) const {
    return read_string(follow(data + index * sizeof(flatbuffers::uoffset_t)));
}

const uint8_t* View::address(const FieldInfo& field) const {
    if (type_->is_struct) return data_ + field.offset;
    return reinterpret_cast<const flatbuffers::Table*>(data_)->GetAddressOf(field.offset);
}

const uint8_t* View::target(const FieldInfo& field) const {
    const uint8_t* at = address(field);
    return at != nullptr ? follow(at) : nullptr;
}

int64_t View::integer(const FieldInfo& field) const {
    const uint8_t* at = address(field);
    return at != nullptr ? read_integer(field.type, at) : field.default_integer;
}

double View::real(const FieldInfo& field) const {
    const uint8_t* at = address(field);
    return at != nullptr ? read_real(field.type, at) : field.default_real;
}

std::string_view View::string(const FieldInfo& field) const {
    const uint8_t* at = target(field);
    return at != nullptr ? read_string(at) : std::string_view();
}

VectorView View::vector(const FieldInfo& field) const {
    if (field.type == BaseType::Array) return {address(field), field.length, &field};
    const uint8_t* at = target(field);
    if (at == nullptr) return {nullptr, 0, &field};
    const auto size = flatbuffers::ReadScalar<flatbuffers::uoffset_t>(at);
    return {at + sizeof(flatbuffers::uoffset_t), size, &field};
}

View View::object(const FieldInfo& field) const {
    if (field.type == BaseType::Union) return {*member(field)->type, target(field)};
    return {*field.object, field.object->is_struct ? address(field) : target(field)};
}

View View::element(const FieldInfo& field, size_t index) const {
    return {*field.object, follow(vector(field).data + index * sizeof(flatbuffers::uoffset_t))};
}

const EnumMember* View::member(const FieldInfo& union_value) const {
    const uint16_t tag_slot = static_cast<uint16_t>(union_value.id - 1);
    for (const FieldInfo& field : type_->fields) {
        if (field.id == tag_slot) return field.enumeration->find(integer(field));
    }
    fail(ErrorCode::INTERNAL_ERROR, type_->name, ".", union_value.name, " has no tag");
}

}  // namespace raggeddnn::schema
