// The element types of tensors, by the numbers of hipDNN's frontend enumeration. The wire format
// and the C API number them differently; each layer converts at its own edge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace raggeddnn {

enum class DataType : int8_t {
    NOT_SET = 0,
    FLOAT = 1,
    HALF = 2,
    BFLOAT16 = 3,
    DOUBLE = 4,
    UINT8 = 5,
    INT32 = 6,
    INT8 = 7,
    FP8_E4M3 = 8,
    FP8_E5M2 = 9,
    FP8_E8M0 = 10,
    FP4_E2M1 = 11,
    INT4 = 12,
    FP6_E2M3 = 13,
    FP6_E3M2 = 14,
    INT64 = 15,
    BOOLEAN = 16,
    FP8_E4M3_FNUZ = 17,
    FP8_E5M2_FNUZ = 18,
};

struct DataTypeInfo {
    DataType type;
    std::string_view name;  // as enumerator
    size_t bits;            // of one element; 0 where there is none
};

inline constexpr DataTypeInfo DATA_TYPES[] = {
    {DataType::NOT_SET, "NOT_SET", 0},
    {DataType::FLOAT, "FLOAT", 32},
    {DataType::HALF, "HALF", 16},
    {DataType::BFLOAT16, "BFLOAT16", 16},
    {DataType::DOUBLE, "DOUBLE", 64},
    {DataType::UINT8, "UINT8", 8},
    {DataType::INT32, "INT32", 32},
    {DataType::INT8, "INT8", 8},
    {DataType::FP8_E4M3, "FP8_E4M3", 8},
    {DataType::FP8_E5M2, "FP8_E5M2", 8},
    {DataType::FP8_E8M0, "FP8_E8M0", 8},
    {DataType::FP4_E2M1, "FP4_E2M1", 4},
    {DataType::INT4, "INT4", 4},
    {DataType::FP6_E2M3, "FP6_E2M3", 6},
    {DataType::FP6_E3M2, "FP6_E3M2", 6},
    {DataType::INT64, "INT64", 64},
    {DataType::BOOLEAN, "BOOLEAN", 8},
    {DataType::FP8_E4M3_FNUZ, "FP8_E4M3_FNUZ", 8},
    {DataType::FP8_E5M2_FNUZ, "FP8_E5M2_FNUZ", 8},
};

inline constexpr const DataTypeInfo& info(DataType type) {
    for (const DataTypeInfo& row : DATA_TYPES) {
        if (row.type == type) return row;
    }
    return DATA_TYPES[0];
}

inline constexpr std::string_view to_string(DataType type) { return info(type).name; }
inline constexpr size_t bits_of(DataType type) { return info(type).bits; }

// Bytes of `elements` elements, rounded up for types below a byte.
inline constexpr size_t bytes_of(DataType type, size_t elements) {
    return bits_of(type) % 8 == 0 ? bits_of(type) / 8 * elements
                                  : (bits_of(type) * elements + 7) / 8;
}

// Types of scalars that may be given at execute; UINT8 exists as a constant only.
inline constexpr const char* RUNTIME_SCALAR_TYPES =
    "DOUBLE, FLOAT, HALF, BFLOAT16, INT32, INT64 or BOOLEAN";

inline constexpr bool is_runtime_scalar_type(DataType type) {
    return type == DataType::DOUBLE || type == DataType::FLOAT || type == DataType::HALF ||
           type == DataType::BFLOAT16 || type == DataType::INT32 || type == DataType::INT64 ||
           type == DataType::BOOLEAN;
}

inline constexpr std::optional<DataType> data_type_of(std::string_view name) {
    for (const DataTypeInfo& row : DATA_TYPES) {
        if (row.name == name) return row.type;
    }
    return std::nullopt;
}

}  // namespace raggeddnn
