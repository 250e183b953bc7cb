#include "raggeddnn/schema/table_writer.hpp"

#include <algorithm>
#include <tuple>

#include "raggeddnn/base/error.hpp"

namespace raggeddnn::schema {

namespace {

using reflection::BaseType;

template <class T>
T from_bytes(const uint8_t* at) {
    return flatbuffers::ReadScalar<T>(at);
}

template <class T>
uoffset_t write_vector(flatbuffers::FlatBufferBuilder& builder, std::span<const uint8_t> bytes) {
    std::vector<T> values(bytes.size() / sizeof(T));
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = from_bytes<T>(bytes.data() + i * sizeof(T));
    }
    return builder.CreateVector(values).o;
}

}  // namespace

void store_integer(BaseType type, int64_t value, uint8_t* at) {
    switch (scalar_size(type)) {
        case 1: *at = static_cast<uint8_t>(value); break;
        case 2: flatbuffers::WriteScalar(at, static_cast<uint16_t>(value)); break;
        case 4: flatbuffers::WriteScalar(at, static_cast<uint32_t>(value)); break;
        default: flatbuffers::WriteScalar(at, static_cast<uint64_t>(value));
    }
}

void store_real(BaseType type, double value, uint8_t* at) {
    if (type == BaseType::Float) {
        flatbuffers::WriteScalar(at, static_cast<float>(value));
    } else {
        flatbuffers::WriteScalar(at, value);
    }
}

uoffset_t write_struct(flatbuffers::FlatBufferBuilder& builder, const TypeInfo& type,
                       std::span<const uint8_t> bytes) {
    builder.Align(type.alignment);
    builder.PushBytes(bytes.data(), bytes.size());
    return builder.GetSize();
}

uoffset_t write_scalars(flatbuffers::FlatBufferBuilder& builder, BaseType element,
                        std::span<const uint8_t> bytes) {
    switch (scalar_size(element)) {
        case 1: return write_vector<uint8_t>(builder, bytes);
        case 2: return write_vector<uint16_t>(builder, bytes);
        case 4: return write_vector<uint32_t>(builder, bytes);
        default: return write_vector<uint64_t>(builder, bytes);
    }
}

void TableWriter::integer(const FieldInfo& field, int64_t value) {
    if (!field.optional && value == field.default_integer) return;
    Item item{&field, scalar_size(field.type)};
    store_integer(field.type, value, item.bytes.data());
    items_.push_back(item);
}

void TableWriter::real(const FieldInfo& field, double value) {
    Item item{&field, scalar_size(field.type)};
    store_real(field.type, value, item.bytes.data());
    // By bits: -0 is no default, and a NaN may be one.
    std::array<uint8_t, 16> absent{};
    store_real(field.type, field.default_real, absent.data());
    if (field.optional || item.bytes != absent) items_.push_back(item);
}

void TableWriter::structure(const FieldInfo& field, std::span<const uint8_t> bytes) {
    Item item{&field, bytes.size()};
    if (bytes.size() > item.bytes.size()) {
        fail(ErrorCode::INTERNAL_ERROR, field.name, " has ", bytes.size(), " bytes, expected ",
             item.bytes.size(), " at most");
    }
    std::copy(bytes.begin(), bytes.end(), item.bytes.begin());
    items_.push_back(item);
}

void TableWriter::offset(const FieldInfo& field, uoffset_t where) {
    items_.push_back({&field, 0, {}, flatbuffers::Offset<void>(where)});
}

void TableWriter::add(const Item& item) {
    const FieldInfo& field = *item.field;
    const uint8_t* bytes = item.bytes.data();
    if (item.size == 0) {
        builder_.AddOffset(field.offset, item.where);
    } else if (field.type == BaseType::Obj) {
        const uoffset_t where = write_struct(builder_, *field.object, {bytes, item.size});
        builder_.AddStructOffset(field.offset, where);
    } else if (item.size == 1) {
        builder_.AddElement(field.offset, *bytes);
    } else if (item.size == 2) {
        builder_.AddElement(field.offset, from_bytes<uint16_t>(bytes));
    } else if (item.size == 4) {
        builder_.AddElement(field.offset, from_bytes<uint32_t>(bytes));
    } else {
        builder_.AddElement(field.offset, from_bytes<uint64_t>(bytes));
    }
}

uoffset_t TableWriter::finish() {
    // Widest first, so that little is lost to alignment.
    std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
        return std::tuple(b.size, a.field->id) < std::tuple(a.size, b.field->id);
    });
    const uoffset_t start = builder_.StartTable();
    for (const Item& item : items_) add(item);
    return builder_.EndTable(start);
}

}  // namespace raggeddnn::schema
