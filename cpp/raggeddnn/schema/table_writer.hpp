// Writing tables without knowing their C++ type: the counterpart of reflect.hpp's View.
//
// Readers of other formats (JSON) produce FlatBuffers bytes with it, so that whatever comes in, in
// whichever form, passes the one verifier and the one walk before it is used.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "flatbuffers/flatbuffers.h"
#include "raggeddnn/schema/reflect.hpp"

namespace raggeddnn::schema {

using flatbuffers::uoffset_t;

// Stores a scalar as the wire does. The value must be one that `type` can hold.
void store_integer(reflection::BaseType type, int64_t value, uint8_t* at);
void store_real(reflection::BaseType type, double value, uint8_t* at);

// A struct that is reached by an offset of its own, as members of a union are.
uoffset_t write_struct(flatbuffers::FlatBufferBuilder& builder, const TypeInfo& type,
                       std::span<const uint8_t> bytes);

// A vector of stored scalars.
uoffset_t write_scalars(flatbuffers::FlatBufferBuilder& builder, reflection::BaseType element,
                        std::span<const uint8_t> bytes);

// Collects the fields of one table, then writes it. Strings, vectors and other tables must be
// written before `finish`; between tables nothing is shared.
class TableWriter {
public:
    explicit TableWriter(flatbuffers::FlatBufferBuilder& builder) : builder_(builder) {}

    // A scalar at its default is left out, as flatc's own writers do, unless it is optional: then
    // every value differs from absence.
    void integer(const FieldInfo& field, int64_t value);
    void real(const FieldInfo& field, double value);
    void structure(const FieldInfo& field, std::span<const uint8_t> bytes);
    void offset(const FieldInfo& field, uoffset_t where);
    uoffset_t finish();

private:
    struct Item {
        const FieldInfo* field = nullptr;
        size_t size = 0;                       // of `bytes`; 0: an offset
        std::array<uint8_t, 16> bytes{};       // no struct of any schema is larger
        flatbuffers::Offset<void> where = {};  // of what lies outside the table
    };
    void add(const Item& item);

    flatbuffers::FlatBufferBuilder& builder_;
    std::vector<Item> items_;
};

}  // namespace raggeddnn::schema
