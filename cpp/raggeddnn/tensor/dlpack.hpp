// The memory layout of DLPack's exchange structs (https://dmlc.github.io/dlpack, version 1.1), for
// reading arrays of other libraries without linking to any.
#pragma once

#include <cstdint>
#include <optional>

#include "raggeddnn/tensor/data_type.hpp"

namespace raggeddnn::dlpack {

enum DeviceType : int32_t { CPU = 1, CUDA = 2, CUDA_HOST = 3, ROCM = 10, ROCM_HOST = 11 };

struct Device {
    int32_t type;
    int32_t id;
};

struct ElementType {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
};

struct Tensor {
    void* data;
    Device device;
    int32_t ndim;
    ElementType dtype;
    int64_t* shape;
    int64_t* strides;  // in elements; null: row-major
    uint64_t byte_offset;
};

struct ManagedTensor {
    Tensor tensor;
    void* context;
    void (*deleter)(ManagedTensor*);
};

struct ManagedTensorVersioned {
    uint32_t major;
    uint32_t minor;
    void* context;
    void (*deleter)(ManagedTensorVersioned*);
    uint64_t flags;
    Tensor tensor;
};

inline constexpr uint64_t FLAG_READ_ONLY = 1;

// Of the argument `stream` of __dlpack__, besides addresses. CUDA's 0 is refused as ambiguous;
// HIP's default stream is 0, and has neither 1 nor 2.
inline constexpr int64_t NO_SYNCHRONIZATION = -1;
inline constexpr int64_t CUDA_LEGACY_STREAM = 1;
inline constexpr int64_t CUDA_PER_THREAD_STREAM = 2;

// What a type's __dlpack_c_exchange_api__ capsule holds (DLPack 1.3): functions instead of methods.
struct ExchangeApi {
    static constexpr const char* CAPSULE = "dlpack_exchange_api";
    uint32_t major;
    uint32_t minor;
    ExchangeApi* previous;  // of an older major version, or null
    void* allocate;
    void* export_managed;
    void* import_managed;
    // Fills a tensor whose shape and strides stay the producer's; 0, or -1 with a Python error.
    int (*borrow)(void* object, Tensor* to);  // may be null
    void* current_stream;
};

// Nothing for types that tensors here cannot have.
inline std::optional<DataType> data_type_of(const ElementType& type) {
    if (type.lanes != 1) return std::nullopt;
    const auto is = [&type](int code, int bits) { return type.code == code && type.bits == bits; };
    if (is(2, 64)) return DataType::DOUBLE;
    if (is(2, 32)) return DataType::FLOAT;
    if (is(2, 16)) return DataType::HALF;
    if (is(4, 16)) return DataType::BFLOAT16;
    if (is(0, 64)) return DataType::INT64;
    if (is(0, 32)) return DataType::INT32;
    if (is(0, 8)) return DataType::INT8;
    if (is(1, 8)) return DataType::UINT8;
    if (is(6, 8)) return DataType::BOOLEAN;
    if (is(10, 8)) return DataType::FP8_E4M3;
    if (is(11, 8)) return DataType::FP8_E4M3_FNUZ;
    if (is(12, 8)) return DataType::FP8_E5M2;
    if (is(13, 8)) return DataType::FP8_E5M2_FNUZ;
    if (is(14, 8)) return DataType::FP8_E8M0;
    return std::nullopt;
}

}  // namespace raggeddnn::dlpack
