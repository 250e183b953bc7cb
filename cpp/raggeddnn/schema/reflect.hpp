// Reading tables without knowing their C++ type.
//
// The checks on received bytes, the JSON writer and the list of tensors a node uses all do the
// same to every field of every op. They walk the schema that flatc embedded in the library instead
// of repeating each op by hand, so a field added to a .fbs file is checked, printed and counted
// with no further code. This file turns the embedded schema into plain structs once, and reads
// values by them. Nothing here needs libflatbuffers: the generated headers are enough.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "flatbuffers/reflection_generated.h"

namespace raggeddnn::schema {

struct TypeInfo;

struct EnumMember {
    std::string name;
    int64_t value = 0;
    const TypeInfo* type = nullptr;  // of a union: what the value is; null for NONE
};

struct EnumInfo {
    std::string name;
    std::vector<EnumMember> members;

    const EnumMember* find(int64_t value) const;
    // "0 (TOP_LEFT), 1 (BOTTOM_RIGHT)" for messages; of a long enum only the first and last.
    std::string values() const;
};

struct FieldInfo {
    std::string name;
    uint16_t id = 0;      // the slot
    uint16_t offset = 0;  // in the vtable, or in the struct
    reflection::BaseType type = reflection::BaseType::None;
    reflection::BaseType element = reflection::BaseType::None;  // of a vector or array
    uint16_t length = 0;                                        // of an array in a struct
    const EnumInfo* enumeration = nullptr;                      // of an enum or union, tag or value
    const TypeInfo* object = nullptr;  // of a table or struct, also of a vector of them
    bool optional = false;             // a scalar whose absence differs from every value
    int64_t default_integer = 0;
    double default_real = 0.0;
};

struct TypeInfo {
    std::string name;  // without the namespace
    bool is_struct = false;
    size_t bytes = 0;               // of a struct
    size_t alignment = 1;           // of a struct
    std::vector<FieldInfo> fields;  // by slot

    const FieldInfo* find(std::string_view field) const;
    int slot_count() const;  // one more than the last slot
};

// A compiled .fbs file. Each is parsed on first use and lives for the process.
class Reflection {
public:
    static const Reflection& graph();
    static const Reflection& plan();
    static const Reflection& engine();
    static const Reflection& container();

    // Throws INTERNAL_ERROR if the schema has no such table.
    const TypeInfo& type(std::string_view name) const;

private:
    explicit Reflection(const uint8_t* binary_schema);

    std::vector<std::unique_ptr<EnumInfo>> enums_;
    std::vector<std::unique_ptr<TypeInfo>> types_;
};

size_t scalar_size(reflection::BaseType type);  // 0 for what is no scalar
bool is_integer(reflection::BaseType type);     // also bool and union tags
bool is_real(reflection::BaseType type);

// Elements of a vector, or of an array inside a struct.
struct VectorView {
    const uint8_t* data = nullptr;
    size_t size = 0;
    const FieldInfo* field = nullptr;

    int64_t integer(size_t index) const;
    double real(size_t index) const;
    std::string_view string(size_t index) const;
};

// A table or struct in verified memory. Absent scalars read as their defaults.
class View {
public:
    View(const TypeInfo& type, const void* data)
        : type_(&type), data_(static_cast<const uint8_t*>(data)) {}

    const TypeInfo& type() const { return *type_; }
    const uint8_t* data() const { return data_; }

    bool has(const FieldInfo& field) const { return address(field) != nullptr; }
    // Where the field's inline part lies; null if absent.
    const uint8_t* address(const FieldInfo& field) const;
    // Where the field's offset leads; null if absent.
    const uint8_t* target(const FieldInfo& field) const;

    int64_t integer(const FieldInfo& field) const;
    double real(const FieldInfo& field) const;
    std::string_view string(const FieldInfo& field) const;
    VectorView vector(const FieldInfo& field) const;
    View object(const FieldInfo& field) const;                 // a table or struct that is there
    View element(const FieldInfo& field, size_t index) const;  // of a vector of tables
    // Which member a union holds; null if its tag is unknown.
    const EnumMember* member(const FieldInfo& union_value) const;

private:
    const TypeInfo* type_;
    const uint8_t* data_;
};

}  // namespace raggeddnn::schema
