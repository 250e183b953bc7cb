// The one place where the reference engine turns memory of any supported type into doubles and
// back. Results are rounded once, here.
#pragma once

#include <cstdint>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/tensor/data_type.hpp"
#include "raggeddnn/tensor/half.hpp"

namespace raggeddnn::reference {

inline bool is_computable(DataType type) {
    return type == DataType::DOUBLE || type == DataType::FLOAT || type == DataType::HALF ||
           type == DataType::BFLOAT16;
}

// Calls body(T{}) with the C++ type of `type`.
template <class Body>
void with_type(DataType type, Body&& body) {
    switch (type) {
        case DataType::DOUBLE: return body(double{});
        case DataType::FLOAT: return body(float{});
        case DataType::HALF: return body(half{});
        case DataType::BFLOAT16: return body(bfloat16{});
        default:
            fail(ErrorCode::INTERNAL_ERROR, "reference: data type ", to_string(type),
                 ", expected DOUBLE, FLOAT, HALF or BFLOAT16");
    }
}

// `count` elements, `stride` apart, from element `first` on.
struct Run {
    int64_t first = 0;
    int64_t stride = 1;
    int64_t count = 0;
};

// out[i * out_stride] = memory[i], for all of the run.
inline void load(DataType type, const void* memory, const Run& run, double* out,
                 int64_t out_stride = 1) {
    with_type(type, [&]<class T>(T) {
        const T* from = static_cast<const T*>(memory) + run.first;
        for (int64_t i = 0; i < run.count; ++i) {
            out[i * out_stride] = static_cast<double>(from[i * run.stride]);
        }
    });
}

inline void store(DataType type, void* memory, const Run& run, const double* values) {
    with_type(type, [&]<class T>(T) {
        T* to = static_cast<T*>(memory) + run.first;
        for (int64_t i = 0; i < run.count; ++i) to[i * run.stride] = static_cast<T>(values[i]);
    });
}

}  // namespace raggeddnn::reference
