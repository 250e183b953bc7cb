#include "arrays.hpp"

#include <pybind11/numpy.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "raggeddnn/tensor/dlpack.hpp"

namespace raggeddnn::python {

DataType type_of_name(const std::string& name) {
    static const std::pair<const char*, DataType> names[] = {
        {"float32", DataType::FLOAT},       {"float16", DataType::HALF},
        {"bfloat16", DataType::BFLOAT16},   {"float64", DataType::DOUBLE},
        {"uint8", DataType::UINT8},         {"int32", DataType::INT32},
        {"int8", DataType::INT8},           {"int64", DataType::INT64},
        {"bool", DataType::BOOLEAN},        {"float8_e4m3fn", DataType::FP8_E4M3},
        {"float8_e5m2", DataType::FP8_E5M2}};
    for (const auto& [known, type] : names) {
        if (name == known) return type;
    }
    return DataType::NOT_SET;
}

namespace {

// Where the memory of an empty array points: somewhere, aligned as much as any tensor asks.
alignas(4096) unsigned char nothing[1];

DataType type_of_dtype(const py::dtype& dtype, std::string& name) {
    if (dtype.byteorder() == (std::endian::native == std::endian::little ? '>' : '<')) {
        name = std::string(py::str(dtype.attr("name"))) + " of swapped bytes";
        return DataType::NOT_SET;
    }
    switch (dtype.num()) {  // the common ones without asking for their names
        case py::detail::npy_api::NPY_FLOAT_: name = "float32"; return DataType::FLOAT;
        case py::detail::npy_api::NPY_DOUBLE_: name = "float64"; return DataType::DOUBLE;
        case py::detail::npy_api::NPY_INT_: name = "int32"; return DataType::INT32;
        case py::detail::npy_api::NPY_LONG_: name = "int64"; return DataType::INT64;
        default: name = py::str(dtype.attr("name")); return type_of_name(name);
    }
}

// Fills extent_bytes from shape and strides; refuses what no memory can have.
void measure(ArrayInfo& array, int64_t item_bytes, const std::string& what) {
    if (array.strides.size() != array.shape.size()) {
        invalid(what, " got an array of ", array.shape.size(), " dims and ", array.strides.size(),
                " strides, expected as many");
    }
    const auto expected = static_cast<int64_t>(bytes_of(array.data_type, 1));
    if (array.data_type != DataType::NOT_SET ? item_bytes != expected : item_bytes < 1) {
        invalid(what, " got an array of type ", array.type_name, " with elements of ", item_bytes,
                " bytes, expected ", std::max<int64_t>(expected, 1));
    }
    for (const int64_t n : array.shape) {
        if (n < 0) invalid(what, " got an array with a dim of ", n, ", expected 0 or more");
    }
    if (std::find(array.shape.begin(), array.shape.end(), 0) != array.shape.end()) {
        array.extent_bytes = 0;
        if (!array.ptr) array.ptr = nothing;
        return;
    }
    int64_t last = 0;
    for (size_t i = 0; i < array.shape.size(); ++i) {
        if (array.shape[i] > 1 && array.strides[i] < 0) {
            invalid(what, " got an array with a negative stride, expected none");
        }
        int64_t step = 0;
        if (__builtin_mul_overflow(array.shape[i] - 1, array.strides[i], &step) ||
            __builtin_add_overflow(last, step, &last)) {
            invalid(what, " got an array whose shape and strides reach beyond 2^63 elements");
        }
    }
    if (__builtin_add_overflow(last, 1, &last) ||
        __builtin_mul_overflow(last, item_bytes, &array.extent_bytes)) {
        invalid(what, " got an array of more than 2^63 bytes");
    }
}

ArrayInfo read_numpy(const py::array& source, const std::string& what) {
    ArrayInfo array;
    array.ptr = const_cast<void*>(source.data());
    const auto item = static_cast<int64_t>(source.itemsize());
    array.data_type = type_of_dtype(source.dtype(), array.type_name);
    for (py::ssize_t i = 0; i < source.ndim(); ++i) {
        const int64_t bytes = source.strides(i);
        if (item == 0 || (source.shape(i) > 1 && bytes % item != 0)) {
            invalid(what, " got an array whose strides are no multiples of its element size");
        }
        array.shape.push_back(source.shape(i));
        array.strides.push_back(source.shape(i) > 1 ? bytes / item : 0);
    }
    array.device = "cpu";
    array.is_read_only = !source.writeable();
    measure(array, item, what);
    return array;
}

// What an attribute or method of an array gave, as a T; `part` says which.
template <class T>
T read_as(const py::object& value, const char* part, const std::string& what) {
    try {
        return value.cast<T>();
    } catch (const py::cast_error&) {
        invalid(what, " got an array whose ", part, " is ", std::string(py::repr(value)),
                ", expected ",
                std::is_same_v<T, bool>          ? "a bool"
                : std::is_same_v<T, std::string> ? "a str"
                : std::is_same_v<T, int64_t>     ? "an int of 64 bits"
                                                 : "ints of 64 bits");
    }
}

// PyTorch and its like: data_ptr(), shape, stride(), dtype, device. No library is imported.
ArrayInfo read_data_ptr(py::handle source, const std::string& what) {
    for (const char* bit : {"is_neg", "is_conj"}) {
        if (py::hasattr(source, bit) && read_as<bool>(source.attr(bit)(), bit, what)) {
            invalid(what, " got a tensor with the ", bit + 3,
                    " bit, whose memory does not hold its values, expected resolve_", bit + 3,
                    "()");
        }
    }
    ArrayInfo array;
    array.ptr = address_of(source.attr("data_ptr")(), what + " data_ptr()");
    array.type_name = py::str(source.attr("dtype"));
    const size_t dot = array.type_name.rfind('.');
    if (dot != std::string::npos) array.type_name.erase(0, dot + 1);
    array.data_type = type_of_name(array.type_name);
    array.device = "cpu";
    if (py::hasattr(source, "device") && py::hasattr(source.attr("device"), "type")) {
        array.device = read_as<std::string>(source.attr("device").attr("type"), "device", what);
    }
    using Extents = std::vector<int64_t>;
    array.shape = read_as<Extents>(py::tuple(source.attr("shape")), "shape", what);
    array.strides = read_as<Extents>(py::tuple(source.attr("stride")()), "stride()", what);
    measure(array, read_as<int64_t>(source.attr("element_size")(), "element_size()", what), what);
    return array;
}

std::string device_name(const dlpack::Device& device) {
    switch (device.type) {
        case dlpack::CPU:
        case dlpack::CUDA_HOST:
        case dlpack::ROCM_HOST: return "cpu";
        case dlpack::CUDA: return "cuda";
        case dlpack::ROCM: return "hip";
        default: return message("DLPack device ", device.type);
    }
}

ArrayInfo from_dlpack(const dlpack::Tensor& source, bool is_read_only, const std::string& what) {
    ArrayInfo array;
    array.is_read_only = is_read_only;
    array.device = device_name(source.device);
    const auto type = dlpack::data_type_of(source.dtype);
    array.data_type = type.value_or(DataType::NOT_SET);
    array.type_name = type ? std::string(to_string(*type))
                           : message("DLPack type code ", int(source.dtype.code), " of ",
                                     int(source.dtype.bits), " bits x ", source.dtype.lanes);
    if (source.ndim < 0 || (source.ndim > 0 && !source.shape)) {
        invalid(what, " got a DLPack tensor of ", source.ndim, source.shape ? "" : " unstated",
                " dims, expected 0 or more, all stated");
    }
    if (source.data) array.ptr = static_cast<char*>(source.data) + source.byte_offset;
    array.shape.assign(source.shape, source.shape + source.ndim);
    if (source.strides) {
        array.strides.assign(source.strides, source.strides + source.ndim);
    } else {
        array.strides.assign(array.shape.size(), 1);
        for (size_t i = array.shape.size(); i-- > 1;) {
            array.strides[i - 1] = array.strides[i] * array.shape[i];
        }
    }
    measure(array, (source.dtype.bits * source.dtype.lanes + 7) / 8, what);
    return array;
}

ArrayInfo read_dlpack(py::handle source, const std::string& what) {
    py::object capsule;
    try {
        try {
            capsule = source.attr("__dlpack__")(py::arg("max_version") = py::make_tuple(1, 1));
        } catch (py::error_already_set& e) {  // producers before DLPack 1.0
            if (!e.matches(PyExc_TypeError)) throw;
            capsule = source.attr("__dlpack__")();
        }
    } catch (py::error_already_set& e) {
        // An interrupt, or no memory left, says nothing of the array.
        if (!e.matches(PyExc_Exception) || e.matches(PyExc_MemoryError)) throw;
        invalid(what, " got an array that DLPack cannot export: ",
                std::string(py::str(e.type().attr("__name__"))), ": ",
                std::string(py::str(e.value())));
    }
    // The capsule is not consumed: it stays the owner, and is dropped after the call.
    ArrayInfo array;
    if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
        const auto* managed = static_cast<const dlpack::ManagedTensorVersioned*>(
            PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
        if (managed->major != 1) {
            invalid(what, " got a DLPack tensor of version ", managed->major, ", expected 1");
        }
        array = from_dlpack(managed->tensor, (managed->flags & dlpack::FLAG_READ_ONLY) != 0, what);
    } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
        const auto* managed = static_cast<const dlpack::ManagedTensor*>(
            PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
        array = from_dlpack(managed->tensor, false, what);
    } else {
        invalid(what, " got a __dlpack__ that returns no DLPack capsule");
    }
    array.keep_alive = std::move(capsule);
    return array;
}

bool is_number(py::handle value) {
    if (PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr())) return true;
    static py::object* generic =  // numpy.generic; kept for the life of the process
        new py::object(py::module_::import("numpy").attr("generic"));
    return py::isinstance(value, *generic);
}

std::string describe(py::handle value) {
    return py::str(py::type::handle_of(value).attr("__name__"));
}

// Throws what the object's own __index__ throws.
py::object index_of(py::handle object) {
    PyObject* const index = PyNumber_Index(object.ptr());
    if (!index) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(index);
}

template <class T>
void store(unsigned char* to, const T& value) {
    std::memcpy(to, &value, sizeof(T));
}

}  // namespace

std::optional<ArrayInfo> read_array(py::handle object, const std::string& what) {
    if (py::isinstance<py::array>(object)) {
        return read_numpy(py::reinterpret_borrow<py::array>(object), what);
    }
    if (py::hasattr(object, "data_ptr")) return read_data_ptr(object, what);
    if (py::hasattr(object, "__dlpack__")) return read_dlpack(object, what);
    return std::nullopt;
}

void* address_of(py::handle object, const std::string& what) {
    if (PyBool_Check(object.ptr()) || !PyIndex_Check(object.ptr())) {
        invalid(what, " got ", describe(object), ", expected an array or an int pointer");
    }
    const unsigned long long address = PyLong_AsUnsignedLongLong(index_of(object).ptr());
    if (PyErr_Occurred()) {
        PyErr_Clear();
        invalid(what, " got ", std::string(py::repr(object)), ", expected an address");
    }
    return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

Memory memory_of(py::handle object, const std::string& what) {
    if (object.is_none()) return {};
    if (auto array = read_array(object, what)) {
        return {array->ptr, array->extent_bytes, std::move(array->keep_alive)};
    }
    return {address_of(object, what)};
}

int64_t uid_of_key(py::handle key, const char* where) {
    if (py::isinstance<TensorAttributes>(key)) {
        const auto& tensor = key.cast<const TensorAttributes&>();
        if (!tensor.has_uid()) {
            invalid(where, ": ", tensor.label(), " is no tensor of the plan's graph");
        }
        return tensor.get_uid();
    }
    const auto text = [&] { return std::string(py::repr(key)); };
    if (PyBool_Check(key.ptr()) || !PyIndex_Check(key.ptr())) {
        invalid(where, ": key ", text(), ", expected a TensorAttributes or its uid");
    }
    int overflow = 0;
    const long long uid = PyLong_AsLongLongAndOverflow(index_of(key).ptr(), &overflow);
    if (overflow != 0) invalid(where, ": uid ", text(), " is no tensor of the plan's graph");
    return uid;
}

PackReader::PackReader(const ExecutionPlan& plan, const py::dict& pack)
    : plan_(plan), entries_(entries_of(pack)) {
    bindings_.reserve(entries_.size());
    for (const auto& [key, value] : entries_) {
        const int64_t uid = uid_of_key(key, "variant pack");
        const PlanTensor* tensor = plan.find(uid);
        if (!tensor) invalid("variant pack: uid ", uid, " is no tensor of the plan's graph");
        if (!tensor->has_value) add(*tensor, value);  // of a baked value: inert, unchecked
    }
}

void PackReader::add(const PlanTensor& tensor, py::handle value) {
    const std::string what = "variant pack: " + tensor.label;
    if (tensor.is_runtime_pass_by_value && is_number(value)) return add_scalar(tensor, value);
    if (tensor.is_bare && is_number(value) && !PyLong_Check(value.ptr())) {
        invalid(what,
                " got a number, expected an array or an int pointer: a plan saved without its "
                "graph does not know the types of its scalars");
    }
    if (auto array = read_array(value, what)) return add_array(tensor, std::move(*array), what);
    void* const ptr = value.is_none() ? nullptr : address_of(value, what);
    if (!ptr) invalid(what, " got a null pointer, expected memory");
    bindings_.push_back({tensor.uid, ptr, -1});
}

void PackReader::add_scalar(const PlanTensor& tensor, py::handle value) {
    auto scalar = std::make_unique<Scalar>();
    std::visit(
        [&]<class T>(const T& v) {
            if constexpr (!std::is_same_v<T, std::monostate>) store(scalar->bytes, v);
        },
        scalar_from_python(value, tensor.data_type, "variant pack: " + tensor.label));
    bindings_.push_back({tensor.uid, scalar->bytes, sizeof(scalar->bytes)});
    scalars_.push_back(std::move(scalar));
}

void PackReader::add_array(const PlanTensor& tensor, ArrayInfo array, const std::string& what) {
    if (tensor.is_bare) {  // a device buffer or a host scalar: only the engine knows
        bindings_.push_back({tensor.uid, array.ptr, -1});
        if (array.keep_alive) keep_alive_.push_back(std::move(array.keep_alive));
        return;
    }
    const std::string& expected =
        tensor.is_runtime_pass_by_value ? std::string("cpu") : plan_.device();
    if (array.device != expected) {
        invalid(what, " got memory on device ", array.device, ", expected ", expected,
                tensor.is_runtime_pass_by_value ? " (a runtime scalar is host memory)" : "");
    }
    if (array.data_type != tensor.data_type) {
        invalid(what, " got an array of type ", array.type_name, ", expected ",
                to_string(tensor.data_type));
    }
    if (tensor.is_output && array.is_read_only) {
        invalid(what, " is an output and got a read-only array, expected one that can be written");
    }
    if (tensor.is_runtime_pass_by_value && array.extent_bytes == 0) {
        invalid(what, " got an empty array, expected one element");
    }
    bindings_.push_back({tensor.uid, array.ptr, array.extent_bytes});
    if (array.keep_alive) keep_alive_.push_back(std::move(array.keep_alive));
}

}  // namespace raggeddnn::python
