// Between data types and the C++ types that hold their elements in memory: one trait, one dispatch.
#pragma once

#include <concepts>
#include <type_traits>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/tensor/data_type.hpp"
#include "raggeddnn/tensor/half.hpp"

namespace raggeddnn {

// The data type of elements of T; NOT_SET where tensors cannot hold it.
template <class T>
inline constexpr DataType DATA_TYPE_OF = DataType::NOT_SET;
template <>
inline constexpr DataType DATA_TYPE_OF<float> = DataType::FLOAT;
template <>
inline constexpr DataType DATA_TYPE_OF<double> = DataType::DOUBLE;
template <>
inline constexpr DataType DATA_TYPE_OF<half> = DataType::HALF;
template <>
inline constexpr DataType DATA_TYPE_OF<bfloat16> = DataType::BFLOAT16;
template <>
inline constexpr DataType DATA_TYPE_OF<int32_t> = DataType::INT32;
template <>
inline constexpr DataType DATA_TYPE_OF<int64_t> = DataType::INT64;
template <>
inline constexpr DataType DATA_TYPE_OF<int8_t> = DataType::INT8;
template <>
inline constexpr DataType DATA_TYPE_OF<uint8_t> = DataType::UINT8;
template <>
inline constexpr DataType DATA_TYPE_OF<bool> = DataType::BOOLEAN;

template <class T>
concept ElementType = DATA_TYPE_OF<T> != DataType::NOT_SET;

template <class T>
inline constexpr bool IS_REAL =
    std::floating_point<T> || std::same_as<T, half> || std::same_as<T, bfloat16>;

inline constexpr const char* ELEMENT_TYPES =
    "FLOAT, DOUBLE, HALF, BFLOAT16, INT32, INT64, INT8, UINT8 or BOOLEAN";

// Calls body(std::type_identity<T>{}) with the T of `type`. INVALID_VALUE for other types.
template <class Body>
decltype(auto) with_element_type(DataType type, Body&& body) {
    switch (type) {
        case DataType::FLOAT: return body(std::type_identity<float>{});
        case DataType::DOUBLE: return body(std::type_identity<double>{});
        case DataType::HALF: return body(std::type_identity<half>{});
        case DataType::BFLOAT16: return body(std::type_identity<bfloat16>{});
        case DataType::INT32: return body(std::type_identity<int32_t>{});
        case DataType::INT64: return body(std::type_identity<int64_t>{});
        case DataType::INT8: return body(std::type_identity<int8_t>{});
        case DataType::UINT8: return body(std::type_identity<uint8_t>{});
        case DataType::BOOLEAN: return body(std::type_identity<bool>{});
        default: invalid("[tensor] got data type ", to_string(type), ", expected ", ELEMENT_TYPES);
    }
}

}  // namespace raggeddnn
