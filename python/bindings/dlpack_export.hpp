// Memory of ours as a DLPack capsule, which keeps a Python object alive as long as anyone uses
// the memory.
#pragma once

#include <cstdint>
#include <vector>

#include "bindings.hpp"
#include "raggeddnn/tensor/dlpack.hpp"

namespace raggeddnn::python {

struct ExportedArray {
    void* data;
    DataType data_type;
    std::vector<int64_t> shape;
    std::vector<int64_t> strides;  // in elements
    bool is_read_only;
    dlpack::Device device;
    py::object owner;
};

// Versioned as DLPack 1.0 has it, or in the form before. BufferError where that one cannot say what
// must be said: that the memory is read-only.
py::capsule export_dlpack(ExportedArray array, bool is_versioned);

}  // namespace raggeddnn::python
