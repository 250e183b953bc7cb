// Wire data types <-> data types of the tensor layer: the same names under other numbers (INT4 and
// the FP6 types differ).
#pragma once

#include "raggeddnn/schema/data_types_generated.h"
#include "raggeddnn/schema/tensor_attributes_generated.h"
#include "raggeddnn/tensor/data_type.hpp"

namespace raggeddnn::schema {

struct DataTypePair {
    schema::DataType wire;
    raggeddnn::DataType type;
};

inline constexpr DataTypePair DATA_TYPE_PAIRS[] = {
    {schema::DataType::UNSET, raggeddnn::DataType::NOT_SET},
    {schema::DataType::FLOAT, raggeddnn::DataType::FLOAT},
    {schema::DataType::HALF, raggeddnn::DataType::HALF},
    {schema::DataType::BFLOAT16, raggeddnn::DataType::BFLOAT16},
    {schema::DataType::DOUBLE, raggeddnn::DataType::DOUBLE},
    {schema::DataType::UINT8, raggeddnn::DataType::UINT8},
    {schema::DataType::INT32, raggeddnn::DataType::INT32},
    {schema::DataType::INT8, raggeddnn::DataType::INT8},
    {schema::DataType::FP8_E4M3, raggeddnn::DataType::FP8_E4M3},
    {schema::DataType::FP8_E5M2, raggeddnn::DataType::FP8_E5M2},
    {schema::DataType::FP8_E8M0, raggeddnn::DataType::FP8_E8M0},
    {schema::DataType::FP4_E2M1, raggeddnn::DataType::FP4_E2M1},
    {schema::DataType::INT4, raggeddnn::DataType::INT4},
    {schema::DataType::FP6_E2M3, raggeddnn::DataType::FP6_E2M3},
    {schema::DataType::FP6_E3M2, raggeddnn::DataType::FP6_E3M2},
    {schema::DataType::INT64, raggeddnn::DataType::INT64},
    {schema::DataType::BOOLEAN, raggeddnn::DataType::BOOLEAN},
    {schema::DataType::FP8_E4M3_FNUZ, raggeddnn::DataType::FP8_E4M3_FNUZ},
    {schema::DataType::FP8_E5M2_FNUZ, raggeddnn::DataType::FP8_E5M2_FNUZ},
};

inline constexpr schema::DataType to_wire(raggeddnn::DataType type) {
    for (const DataTypePair& pair : DATA_TYPE_PAIRS) {
        if (pair.type == type) return pair.wire;
    }
    return schema::DataType::UNSET;
}

inline constexpr raggeddnn::DataType from_wire(schema::DataType wire) {
    for (const DataTypePair& pair : DATA_TYPE_PAIRS) {
        if (pair.wire == wire) return pair.type;
    }
    return raggeddnn::DataType::NOT_SET;
}

// The data type whose scalars a member of the union holds; UINT8 shares one with 8-bit floats.
inline constexpr raggeddnn::DataType data_type_of_value(TensorValue type) {
    using raggeddnn::DataType;
    switch (type) {
        case TensorValue::Float32Value: return DataType::FLOAT;
        case TensorValue::Float16Value: return DataType::HALF;
        case TensorValue::BFloat16Value: return DataType::BFLOAT16;
        case TensorValue::Float8Value: return DataType::UINT8;
        case TensorValue::Int32Value: return DataType::INT32;
        case TensorValue::Float64Value: return DataType::DOUBLE;
        case TensorValue::Int64Value: return DataType::INT64;
        case TensorValue::BoolValue: return DataType::BOOLEAN;
        default: return DataType::NOT_SET;
    }
}

}  // namespace raggeddnn::schema
