#include "dlpack_export.hpp"

#include <memory>
#include <utility>

namespace raggeddnn::python {

namespace {

dlpack::ElementType element_type(DataType type) {
    const auto bits = static_cast<uint8_t>(bits_of(type));
    switch (type) {
        case DataType::FLOAT:
        case DataType::DOUBLE:
        case DataType::HALF: return {2, bits, 1};
        case DataType::BFLOAT16: return {4, bits, 1};
        case DataType::UINT8: return {1, bits, 1};
        case DataType::BOOLEAN: return {6, bits, 1};
        default: return {0, bits, 1};
    }
}

// A managed tensor of either form, and what it points to.
template <class Managed>
struct Exported {
    Managed managed{};
    ExportedArray array;

    static void drop(Managed* managed) {
        const py::gil_scoped_acquire gil;  // the last user may be on any thread
        delete static_cast<Exported*>(managed->context);
    }
};

// Of a capsule that nobody took.
template <class Managed>
void drop_unused(PyObject* capsule, const char* name) {
    if (!PyCapsule_IsValid(capsule, name)) return;
    auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
    managed->deleter(managed);
}

template <class Managed>
Managed* make(ExportedArray array) {
    auto made = std::make_unique<Exported<Managed>>();
    made->array = std::move(array);
    ExportedArray& kept = made->array;
    made->managed.tensor = {kept.data,
                            kept.device,
                            static_cast<int32_t>(kept.shape.size()),
                            element_type(kept.data_type),
                            kept.shape.data(),
                            kept.strides.data(),
                            0};
    made->managed.context = made.get();
    made->managed.deleter = &Exported<Managed>::drop;
    return &made.release()->managed;
}

}  // namespace

py::capsule export_dlpack(ExportedArray array, bool is_versioned) {
    if (is_versioned) {
        const bool is_read_only = array.is_read_only;
        auto* managed = make<dlpack::ManagedTensorVersioned>(std::move(array));
        managed->major = 1;
        managed->minor = 1;
        managed->flags = is_read_only ? dlpack::FLAG_READ_ONLY : 0;
        return py::reinterpret_steal<py::capsule>(
            PyCapsule_New(managed, "dltensor_versioned", [](PyObject* capsule) {
                drop_unused<dlpack::ManagedTensorVersioned>(capsule, "dltensor_versioned");
            }));
    }
    if (array.is_read_only) {
        throw py::buffer_error("read-only memory needs DLPack 1.0: max_version of (1, 0) or more");
    }
    auto* managed = make<dlpack::ManagedTensor>(std::move(array));
    return py::reinterpret_steal<py::capsule>(PyCapsule_New(
        managed, "dltensor",
        [](PyObject* capsule) { drop_unused<dlpack::ManagedTensor>(capsule, "dltensor"); }));
}

}  // namespace raggeddnn::python
