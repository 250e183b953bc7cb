#include "raggeddnn/backend/c_api/operation_descriptor.hpp"

#include "raggeddnn/backend/c_api/fields.hpp"
#include "raggeddnn/backend/c_api/operation_tables.hpp"
#include "raggeddnn/schema/uids.hpp"

namespace raggeddnn::c_api {

namespace {

// Of a received node whose op has no table.
constexpr Operation UNKNOWN{HIPDNN_INVALID_TYPE,
                            HIPDNN_OPERATION_TYPE_NOT_SET_EXT,
                            schema::NodeAttributes::NONE,
                            "unlisted operation",
                            COMMON_ROWS,
                            nullptr};

}  // namespace

const Operation* find_operation(hipdnnBackendDescriptorType_t type) {
    for (const Operation& operation : operations()) {
        if (operation.descriptor_type == type) return &operation;
    }
    return nullptr;
}

OperationDescriptor::OperationDescriptor(const Operation& operation)
    : Descriptor(operation.descriptor_type, operation.rows), operation_(operation) {
    if (operation.create) operation.create(node);
}

std::shared_ptr<OperationDescriptor> OperationDescriptor::received(const schema::NodeT& node,
                                                                   const TensorTable& tensors) {
    const Operation* operation = &UNKNOWN;
    for (const Operation& candidate : operations()) {
        if (candidate.tag == node.attributes.type) operation = &candidate;
    }
    auto descriptor = std::make_shared<OperationDescriptor>(*operation);
    descriptor->node = node;
    for (const Attribute& row : operation->rows) {
        if (row.adopt) row.adopt(*descriptor, tensors);
    }
    if (operation == &UNKNOWN) {
        for (const schema::NodeTensorUse& use : schema::tensor_uses(node)) {
            descriptor->tensors[0].push_back(tensors.at(use.uid, use.field.c_str()));
        }
    }
    descriptor->mark_final();
    return descriptor;
}

void get_tensors(const Descriptor& descriptor, const Output& output) {
    const auto& operation = static_cast<const OperationDescriptor&>(descriptor);
    const auto found = operation.tensors.find(output.row.name);
    if (found == operation.tensors.end()) return output.put_none();
    output.put_descriptors({found->second.begin(), found->second.end()});
}

void get_operation_type(const Descriptor& descriptor, const Output& output) {
    output.put_one(static_cast<const OperationDescriptor&>(descriptor).operation_type());
}

namespace {

struct DataTypeNumber {
    hipdnnDataType_t c_api;
    schema::DataType wire;
};

constexpr DataTypeNumber DATA_TYPE_NUMBERS[] = {
    {HIPDNN_DATA_FLOAT, schema::DataType::FLOAT},
    {HIPDNN_DATA_DOUBLE, schema::DataType::DOUBLE},
    {HIPDNN_DATA_HALF, schema::DataType::HALF},
    {HIPDNN_DATA_INT8, schema::DataType::INT8},
    {HIPDNN_DATA_INT32, schema::DataType::INT32},
    {HIPDNN_DATA_UINT8, schema::DataType::UINT8},
    {HIPDNN_DATA_BFLOAT16, schema::DataType::BFLOAT16},
    {HIPDNN_DATA_FP8_E4M3, schema::DataType::FP8_E4M3},
    {HIPDNN_DATA_FP8_E5M2, schema::DataType::FP8_E5M2},
    {HIPDNN_DATA_FP8_E8M0, schema::DataType::FP8_E8M0},
    {HIPDNN_DATA_FP4_E2M1, schema::DataType::FP4_E2M1},
    {HIPDNN_DATA_INT4, schema::DataType::INT4},
    {HIPDNN_DATA_FP6_E2M3_EXT, schema::DataType::FP6_E2M3},
    {HIPDNN_DATA_FP6_E3M2_EXT, schema::DataType::FP6_E3M2},
    {HIPDNN_DATA_INT64, schema::DataType::INT64},
    {HIPDNN_DATA_BOOLEAN, schema::DataType::BOOLEAN},
    {HIPDNN_DATA_FP8_E4M3_FNUZ, schema::DataType::FP8_E4M3_FNUZ},
    {HIPDNN_DATA_FP8_E5M2_FNUZ, schema::DataType::FP8_E5M2_FNUZ},
};

}  // namespace

schema::DataType to_wire(hipdnnDataType_t type, const char* label) {
    for (const DataTypeNumber& row : DATA_TYPE_NUMBERS) {
        if (row.c_api == type) return row.wire;
    }
    bad_param(label, " got data type ", static_cast<int>(type), ", expected 0 (FLOAT) to ",
              static_cast<int>(HIPDNN_DATA_FP8_E5M2_FNUZ), " (FP8_E5M2_FNUZ)");
}

std::optional<hipdnnDataType_t> to_c_api(schema::DataType type) {
    for (const DataTypeNumber& row : DATA_TYPE_NUMBERS) {
        if (row.wire == type) return row.c_api;
    }
    return std::nullopt;
}

}  // namespace raggeddnn::c_api
