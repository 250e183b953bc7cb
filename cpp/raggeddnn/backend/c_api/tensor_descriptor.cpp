#include "raggeddnn/backend/c_api/tensor_descriptor.hpp"

#include "raggeddnn/backend/c_api/fields.hpp"
#include "raggeddnn/tensor/half.hpp"

namespace raggeddnn::c_api {

namespace {

using Table = schema::TensorAttributesT;
using schema::TensorValue;

// How the bytes of a scalar become the wire's value: which union member, and back. The 16-bit types
// travel widened, types of one byte as raw bits.
struct ValueKind {
    schema::DataType type;
    TensorValue tag;
    size_t bytes;
    void (*store)(schema::TensorValueUnion&, const void* bytes);
    void (*load)(const schema::TensorValueUnion&, void* bytes);
};

template <class Wire, class Native>
void store_value(schema::TensorValueUnion& value, const void* bytes) {
    Native native;
    std::memcpy(&native, bytes, sizeof(Native));
    if constexpr (std::is_same_v<Native, half> || std::is_same_v<Native, bfloat16>) {
        value.Set(Wire(static_cast<float>(native)));
    } else {
        value.Set(Wire(native));
    }
}

template <class Wire, class Native>
void load_value(const schema::TensorValueUnion& value, void* bytes) {
    const Native native(static_cast<const Wire*>(value.value)->value());
    std::memcpy(bytes, &native, sizeof(Native));
}

void store_bool(schema::TensorValueUnion& value, const void* bytes) {
    value.Set(schema::BoolValue(*static_cast<const uint8_t*>(bytes) != 0));
}

template <class Wire, class Native>
constexpr ValueKind kind_of(schema::DataType type, TensorValue tag) {
    return {type, tag, sizeof(Native), store_value<Wire, Native>, load_value<Wire, Native>};
}

constexpr ValueKind RAW =
    kind_of<schema::Float8Value, uint8_t>(schema::DataType::UINT8, TensorValue::Float8Value);
constexpr ValueKind raw(schema::DataType type) {
    return {type, RAW.tag, RAW.bytes, RAW.store, RAW.load};
}

constexpr ValueKind VALUE_KINDS[] = {
    kind_of<schema::Float32Value, float>(schema::DataType::FLOAT, TensorValue::Float32Value),
    kind_of<schema::Float16Value, half>(schema::DataType::HALF, TensorValue::Float16Value),
    kind_of<schema::BFloat16Value, bfloat16>(schema::DataType::BFLOAT16,
                                             TensorValue::BFloat16Value),
    kind_of<schema::Float64Value, double>(schema::DataType::DOUBLE, TensorValue::Float64Value),
    kind_of<schema::Int32Value, int32_t>(schema::DataType::INT32, TensorValue::Int32Value),
    kind_of<schema::Int64Value, int64_t>(schema::DataType::INT64, TensorValue::Int64Value),
    {schema::DataType::BOOLEAN, TensorValue::BoolValue, 1, store_bool,
     load_value<schema::BoolValue, uint8_t>},
    RAW,
    raw(schema::DataType::INT8),
    raw(schema::DataType::FP8_E4M3),
    raw(schema::DataType::FP8_E5M2),
    raw(schema::DataType::FP8_E8M0),
    raw(schema::DataType::FP8_E4M3_FNUZ),
    raw(schema::DataType::FP8_E5M2_FNUZ),
};

const ValueKind* find_kind(schema::DataType type) {
    for (const ValueKind& kind : VALUE_KINDS) {
        if (kind.type == type) return &kind;
    }
    return nullptr;
}

const TensorDescriptor& self(const Descriptor& descriptor) {
    return static_cast<const TensorDescriptor&>(descriptor);
}

void set_value(Descriptor& descriptor, const Input& input) {
    Table& table = static_cast<TensorDescriptor&>(descriptor).table;
    if (table.data_type == schema::DataType::UNSET) {
        bad_param(
            "TENSOR_VALUE_EXT is set before TENSOR_DATA_TYPE, expected after: the data type "
            "says what its bytes are");
    }
    const ValueKind* kind = find_kind(table.data_type);
    if (!kind) {
        bad_param("TENSOR_VALUE_EXT: data type ", schema::EnumNameDataType(table.data_type),
                  " has no scalars, expected a type of at least 8 bits");
    }
    input.expect_count(static_cast<int64_t>(kind->bytes), static_cast<int64_t>(kind->bytes));
    kind->store(table.value, input.data);
}

void get_value(const Descriptor& descriptor, const Output& output) {
    const Table& table = self(descriptor).table;
    const ValueKind* kind = find_kind(table.data_type);
    if (table.value.type == TensorValue::NONE || !kind || table.value.type != kind->tag) {
        bad_param(self(descriptor).label(), " has no value, expected one to read");
    }
    char bytes[8];
    if (!output.is_question() && output.requested < static_cast<int64_t>(kind->bytes)) {
        bad_param("TENSOR_VALUE_EXT has ", kind->bytes, " bytes, got room for ", output.requested);
    }
    kind->load(table.value, bytes);
    output.put_many(bytes, kind->bytes);
}

void get_is_by_value(const Descriptor& descriptor, const Output& output) {
    Codec<bool>::write(self(descriptor).table.value.type != TensorValue::NONE, output);
}

template <std::vector<int64_t> Table::* Member>
void set_extents(Descriptor& descriptor, const Input& input) {
    static_cast<TensorDescriptor&>(descriptor).table.*Member = input.many<int64_t>(MAX_RANK);
}

void set_ragged_offset(Descriptor& descriptor, const Input& input) {
    auto& tensor = static_cast<TensorDescriptor&>(descriptor);
    const std::vector<DescriptorPtr> given = input.descriptors(1);
    tensor.ragged_offset = as<TensorDescriptor>(given.front(), input.row, "a tensor");
    tensor.table.ragged_offset_tensor_uid = tensor.ragged_offset->table.uid;
}

void get_ragged_offset(const Descriptor& descriptor, const Output& output) {
    const auto& aux = self(descriptor).ragged_offset;
    aux ? output.put_descriptors({aux}) : output.put_none();
}

constexpr Attribute ROWS[] = {
    field<&Table::uid>(RAGGEDDNN_ATTRIBUTE(TENSOR_UNIQUE_ID)),
    field<&Table::name>(RAGGEDDNN_ATTRIBUTE(TENSOR_NAME_EXT)),
    field<&Table::data_type>(RAGGEDDNN_ATTRIBUTE(TENSOR_DATA_TYPE), Need::REQUIRED),
    {RAGGEDDNN_ATTRIBUTE(TENSOR_DIMENSIONS), HIPDNN_TYPE_INT64, set_extents<&Table::dims>,
     get_field<&Table::dims>, Need::REQUIRED},
    {RAGGEDDNN_ATTRIBUTE(TENSOR_STRIDES), HIPDNN_TYPE_INT64, set_extents<&Table::strides>,
     get_field<&Table::strides>, Need::REQUIRED},
    field<&Table::virtual_>(RAGGEDDNN_ATTRIBUTE(TENSOR_IS_VIRTUAL)),
    {RAGGEDDNN_ATTRIBUTE(TENSOR_VALUE_EXT), HIPDNN_TYPE_CHAR, set_value, get_value},
    {RAGGEDDNN_ATTRIBUTE(TENSOR_IS_BY_VALUE), HIPDNN_TYPE_BOOLEAN, nullptr, get_is_by_value},
    field<&Table::is_runtime_pass_by_value>(
        RAGGEDDNN_ATTRIBUTE(TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT)),
    field<&Table::alignment>(RAGGEDDNN_ATTRIBUTE(TENSOR_BYTE_ALIGNMENT)),
    {RAGGEDDNN_ATTRIBUTE(TENSOR_RAGGED_OFFSET_DESC), HIPDNN_TYPE_BACKEND_DESCRIPTOR,
     set_ragged_offset, get_ragged_offset},
    field<&Table::ragged_offset_multiplier>(RAGGEDDNN_ATTRIBUTE(TENSOR_RAGGED_OFFSET_MULTIPLIER)),
};

}  // namespace

TensorDescriptor::TensorDescriptor() : Descriptor(HIPDNN_BACKEND_TENSOR_DESCRIPTOR, ROWS) {}

std::string TensorDescriptor::label() const {
    return table.name.empty() ? message("tensor with uid ", table.uid)
                              : message("tensor '", table.name, "' (uid ", table.uid, ")");
}

std::shared_ptr<TensorDescriptor> TensorDescriptor::received(const Table& table) {
    auto tensor = std::make_shared<TensorDescriptor>();
    tensor->table = table;
    tensor->mark_final();
    return tensor;
}

void TensorDescriptor::on_finalize() {
    if (table.dims.size() != table.strides.size()) {
        bad_param(label(), " has ", table.dims.size(), " dims and ", table.strides.size(),
                  " strides, expected as many");
    }
    const bool has_value = table.value.type != TensorValue::NONE;
    if (has_value) {
        const ValueKind* kind = find_kind(table.data_type);
        if (!kind || kind->tag != table.value.type) {
            bad_param(label(), " has a value of type ",
                      schema::EnumNameTensorValue(table.value.type), " and data type ",
                      schema::EnumNameDataType(table.data_type),
                      ", expected the data type that it had when the value was set");
        }
    }
    if (table.virtual_ && (has_value || table.is_runtime_pass_by_value)) {
        bad_param(label(), " is virtual and passed by value, expected at most one of the two");
    }
    if (table.alignment < 1) {
        bad_param(label(), " has TENSOR_BYTE_ALIGNMENT ", table.alignment,
                  ", expected 1 or more bytes");
    }
    if (table.ragged_offset_multiplier < 1) {
        bad_param(label(), " has TENSOR_RAGGED_OFFSET_MULTIPLIER ", table.ragged_offset_multiplier,
                  ", expected 1 or more");
    }
    if (table.ragged_offset_multiplier != 1 && !ragged_offset) {
        bad_param(label(), " has TENSOR_RAGGED_OFFSET_MULTIPLIER ", table.ragged_offset_multiplier,
                  " and no TENSOR_RAGGED_OFFSET_DESC, expected "
                  "both");
    }
}

TensorTable::TensorTable(const schema::GraphT& graph) {
    for (const auto& table : graph.tensors) {
        in_order_.push_back(TensorDescriptor::received(*table));
        if (!by_uid_.emplace(table->uid, in_order_.back()).second) {
            bad_param("graph: two tensors have uid ", table->uid, ", expected unique uids");
        }
    }
    for (const auto& tensor : in_order_) {
        const auto& uid = tensor->table.ragged_offset_tensor_uid;
        if (!uid.has_value()) continue;
        if (*uid == tensor->table.uid) {
            bad_param(tensor->label(), " is its own ragged offset, expected another tensor");
        }
        tensor->ragged_offset = at(*uid, "ragged offset");
        if (tensor->ragged_offset->table.ragged_offset_tensor_uid.has_value()) {
            bad_param(tensor->label(), ": its ragged offset is ragged, expected a dense tensor");
        }
    }
}

const std::shared_ptr<TensorDescriptor>& TensorTable::at(int64_t uid, const char* what) const {
    const auto found = by_uid_.find(uid);
    if (found == by_uid_.end()) {
        bad_param("graph: ", what, " names uid ", uid, ", expected the uid of a tensor");
    }
    return found->second;
}

}  // namespace raggeddnn::c_api
