// Rows of attribute tables from pointers to members: the member's type says the attribute's type,
// how its elements are read and written, and what "not set" is.
#pragma once

#include <optional>

#include "raggeddnn/backend/c_api/graph_descriptor.hpp"

namespace raggeddnn::c_api {

// How one C++ type travels as elements of an attribute. Absent values have no elements.
template <class T>
struct Codec;

template <class T, hipdnnBackendAttributeType_t Type>
struct PlainCodec {
    static constexpr hipdnnBackendAttributeType_t TYPE = Type;
    static T read(const Input& input) { return input.one<T>(); }
    static void write(const T& value, const Output& output) { output.put_one(value); }
};

template <>
struct Codec<int64_t> : PlainCodec<int64_t, HIPDNN_TYPE_INT64> {};
template <>
struct Codec<int32_t> : PlainCodec<int32_t, HIPDNN_TYPE_INT32> {};
template <>
struct Codec<float> : PlainCodec<float, HIPDNN_TYPE_FLOAT> {};
template <>
struct Codec<hipdnnBackendHeurMode_t> : PlainCodec<hipdnnBackendHeurMode_t, HIPDNN_TYPE_HEUR_MODE> {
};
template <>
struct Codec<void*> : PlainCodec<void*, HIPDNN_TYPE_VOID_PTR> {};

template <>
struct Codec<bool> {
    static constexpr hipdnnBackendAttributeType_t TYPE = HIPDNN_TYPE_BOOLEAN;
    // Any byte but 0 is true: reading it as bool would be undefined beyond 1.
    static bool read(const Input& input) { return input.one<uint8_t>() != 0; }
    static void write(bool value, const Output& output) { output.put_one(uint8_t{value}); }
};

template <>
struct Codec<std::string> {
    static constexpr hipdnnBackendAttributeType_t TYPE = HIPDNN_TYPE_CHAR;
    static std::string read(const Input& input) { return input.text(); }
    static void write(const std::string& value, const Output& output) { output.put_text(value); }
};

template <class T>
struct Codec<std::vector<T>> {
    static constexpr hipdnnBackendAttributeType_t TYPE = Codec<T>::TYPE;
    static std::vector<T> read(const Input& input) { return input.many<T>(); }
    static void write(const std::vector<T>& value, const Output& output) { output.put_many(value); }
};

template <class T>
struct Codec<flatbuffers::Optional<T>> {
    static constexpr hipdnnBackendAttributeType_t TYPE = Codec<T>::TYPE;
    static flatbuffers::Optional<T> read(const Input& input) { return Codec<T>::read(input); }
    static void write(const flatbuffers::Optional<T>& value, const Output& output) {
        value.has_value() ? Codec<T>::write(*value, output) : output.put_none();
    }
};

schema::DataType to_wire(hipdnnDataType_t type, const char* label);
std::optional<hipdnnDataType_t> to_c_api(schema::DataType type);

template <>
struct Codec<schema::DataType> {
    static constexpr hipdnnBackendAttributeType_t TYPE = HIPDNN_TYPE_DATA_TYPE;
    static schema::DataType read(const Input& input) {
        return to_wire(input.one<hipdnnDataType_t>(), input.row.label);
    }
    static void write(schema::DataType value, const Output& output) {
        const std::optional<hipdnnDataType_t> type = to_c_api(value);
        type ? output.put_one(*type) : output.put_none();
    }
};

// Enums that have the wire's numbers; `First` is the first that can be set.
template <class E, hipdnnBackendAttributeType_t Type, int First>
struct EnumCodec {
    static constexpr hipdnnBackendAttributeType_t TYPE = Type;
    static E read(const Input& input) {
        const auto value = input.one<int32_t>();
        if (value < First || value > static_cast<int>(E::MAX)) {
            bad_param(input.row.label, " got ", value, ", expected ", First, " to ",
                      static_cast<int>(E::MAX));
        }
        return static_cast<E>(value);
    }
    static void write(E value, const Output& output) {
        if (static_cast<int>(value) < First) return output.put_none();
        output.put_one(static_cast<int32_t>(value));
    }
};

template <>
struct Codec<schema::PointwiseMode>
    : EnumCodec<schema::PointwiseMode, HIPDNN_TYPE_POINTWISE_MODE, 1> {};
template <>
struct Codec<schema::ReductionMode>
    : EnumCodec<schema::ReductionMode, HIPDNN_TYPE_REDUCTION_MODE, 1> {};
template <>
struct Codec<schema::NormFwdPhase>
    : EnumCodec<schema::NormFwdPhase, HIPDNN_TYPE_NORM_FWD_PHASE, 1> {};
template <>
struct Codec<schema::DiagonalAlignment>
    : EnumCodec<schema::DiagonalAlignment, HIPDNN_TYPE_DIAGONAL_ALIGNMENT, 0> {};
template <>
struct Codec<schema::AttentionImplementation>
    : EnumCodec<schema::AttentionImplementation, HIPDNN_TYPE_ATTENTION_IMPLEMENTATION, 0> {};

// ---- from a descriptor to the struct that has the member ----

template <class Table>
Table& table_of(Descriptor& descriptor) {
    if constexpr (std::is_base_of_v<Descriptor, Table>) {
        return static_cast<Table&>(descriptor);
    } else if constexpr (std::is_same_v<Table, schema::TensorAttributesT>) {
        return static_cast<TensorDescriptor&>(descriptor).table;
    } else if constexpr (std::is_same_v<Table, schema::GraphT>) {
        return static_cast<GraphDescriptor&>(descriptor).table;
    } else if constexpr (std::is_same_v<Table, schema::NodeT>) {
        return static_cast<OperationDescriptor&>(descriptor).node;
    } else {  // an op's table
        return *static_cast<Table*>(
            static_cast<OperationDescriptor&>(descriptor).node.attributes.value);
    }
}

template <class Table>
const Table& table_of(const Descriptor& descriptor) {
    return table_of<Table>(const_cast<Descriptor&>(descriptor));
}

template <class Member>
struct MemberTraits;
template <class TableType, class ValueType>
struct MemberTraits<ValueType TableType::*> {
    using Table = TableType;
    using Value = ValueType;
};

template <auto Member>
using TableOf = typename MemberTraits<decltype(Member)>::Table;
template <auto Member>
using ValueOf = typename MemberTraits<decltype(Member)>::Value;

// ---- rows ----

template <auto Member>
void set_field(Descriptor& descriptor, const Input& input) {
    table_of<TableOf<Member>>(descriptor).*Member = Codec<ValueOf<Member>>::read(input);
}

template <auto Member>
void get_field(const Descriptor& descriptor, const Output& output) {
    Codec<ValueOf<Member>>::write(table_of<TableOf<Member>>(descriptor).*Member, output);
}

template <auto Member>
constexpr Attribute field(hipdnnBackendAttributeName_t name, const char* label,
                          Need need = Need::OPTIONAL) {
    return {name, label, Codec<ValueOf<Member>>::TYPE, set_field<Member>, get_field<Member>, need};
}

// A field that a caller may only read.
template <auto Member>
constexpr Attribute result(hipdnnBackendAttributeName_t name, const char* label) {
    return {name, label, Codec<ValueOf<Member>>::TYPE, nullptr, get_field<Member>};
}

// A tensor of an operation, whose uid is the member: one, an optional one, or a list.
template <class T>
inline constexpr bool IS_LIST = false;
template <class T>
inline constexpr bool IS_LIST<std::vector<T>> = true;

template <auto Member>
void set_tensor(Descriptor& descriptor, const Input& input) {
    auto& operation = static_cast<OperationDescriptor&>(descriptor);
    constexpr bool is_list = IS_LIST<ValueOf<Member>>;
    std::vector<std::shared_ptr<TensorDescriptor>> tensors;
    for (const DescriptorPtr& given : input.descriptors(is_list ? MAX_ELEMENTS : 1)) {
        tensors.push_back(as<TensorDescriptor>(given, input.row, "a tensor"));
    }
    auto& uids = table_of<TableOf<Member>>(descriptor).*Member;
    if constexpr (is_list) {
        uids.clear();
        for (const auto& tensor : tensors) uids.push_back(tensor->table.uid);
    } else {
        uids = tensors.front()->table.uid;
    }
    operation.tensors[input.row.name] = std::move(tensors);
}

// Not a template: the tensors are found by the attribute's number.
void get_tensors(const Descriptor& descriptor, const Output& output);

template <auto Member, hipdnnBackendAttributeName_t Name>
void adopt_tensor(Descriptor& descriptor, const TensorTable& received) {
    auto& operation = static_cast<OperationDescriptor&>(descriptor);
    const auto& uids = table_of<TableOf<Member>>(descriptor).*Member;
    const auto add = [&](int64_t uid) {
        operation.tensors[Name].push_back(received.at(uid, operation.kind()));
    };
    if constexpr (IS_LIST<ValueOf<Member>>) {
        for (const int64_t uid : uids) add(uid);
    } else if constexpr (std::is_same_v<ValueOf<Member>, int64_t>) {
        add(uids);
    } else if (uids.has_value()) {
        add(*uids);
    }
}

// Nullable members are optional, others required.
template <auto Member, hipdnnBackendAttributeName_t Name>
constexpr Attribute tensor(const char* label) {
    constexpr bool is_required = std::is_same_v<ValueOf<Member>, int64_t>;
    return {Name,
            label,
            HIPDNN_TYPE_BACKEND_DESCRIPTOR,
            set_tensor<Member>,
            get_tensors,
            is_required ? Need::REQUIRED : Need::OPTIONAL,
            false,
            adopt_tensor<Member, Name>};
}

// A descriptor that a descriptor refers to; the member is a shared pointer to its class.
template <auto Member>
void set_reference(Descriptor& descriptor, const Input& input) {
    using Target = typename ValueOf<Member>::element_type;
    const std::vector<DescriptorPtr> given = input.descriptors(1);
    table_of<TableOf<Member>>(descriptor).*Member =
        as<Target>(given.front(), input.row, Target::EXPECTED);
}

template <auto Member>
void get_reference(const Descriptor& descriptor, const Output& output) {
    const auto& target = table_of<TableOf<Member>>(descriptor).*Member;
    target ? output.put_descriptors({target}) : output.put_none();
}

template <auto Member>
constexpr Attribute reference(hipdnnBackendAttributeName_t name, const char* label,
                              Need need = Need::OPTIONAL) {
    return {
        name, label, HIPDNN_TYPE_BACKEND_DESCRIPTOR, set_reference<Member>, get_reference<Member>,
        need};
}

}  // namespace raggeddnn::c_api
