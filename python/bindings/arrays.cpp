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
        array.is_any_gpu = array.device == "cuda";
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

std::vector<int64_t> row_major_strides(const std::vector<int64_t>& shape) {
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
    return strides;
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
        array.strides = row_major_strides(array.shape);
    }
    measure(array, (source.dtype.bits * source.dtype.lanes + 7) / 8, what);
    return array;
}

// DLPack's number for the stream that will use an array; nothing for one in host memory.
std::optional<int64_t> stream_number(py::handle source, UsedOn stream) {
    if (!py::hasattr(source, "__dlpack_device__")) return std::nullopt;
    const auto type = py::tuple(source.attr("__dlpack_device__")())[0].cast<int32_t>();
    if (type != dlpack::CUDA && type != dlpack::ROCM) return std::nullopt;
    if (!stream) return dlpack::NO_SYNCHRONIZATION;
    if (*stream == 0 && type == dlpack::CUDA) return dlpack::CUDA_LEGACY_STREAM;
    return static_cast<int64_t>(*stream);
}

py::object call_dlpack(py::handle source, UsedOn stream) {
    py::dict options;
    if (const auto number = stream_number(source, stream)) options["stream"] = *number;
    const py::object export_it = source.attr("__dlpack__");
    try {
        py::dict versioned(**options);
        versioned["max_version"] = py::make_tuple(1, 1);
        return export_it(**versioned);
    } catch (py::error_already_set& e) {  // producers before DLPack 1.0
        if (!e.matches(PyExc_TypeError)) throw;
        return export_it(**options);
    }
}

ArrayInfo read_dlpack(py::handle source, const std::string& what, UsedOn stream) {
    py::object capsule;
    try {
        capsule = call_dlpack(source, stream);
    } catch (const py::cast_error&) {
        invalid(what, " got an array whose __dlpack_device__ is no (type, id)");
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

// Work on the stream that an array names, before that on ours.
void wait_for(const py::object& named, UsedOn stream, const std::string& what) {
    if (!stream || named.is_none()) return;
    const auto number = read_as<int64_t>(named, "stream", what);
    if (number <= 0)
        invalid(what, " got an array whose stream is ", number, ", expected 1 or more");
    const DeviceMemoryApi& runtime = gpu_runtime();
    const bool is_legacy = number == dlpack::CUDA_LEGACY_STREAM;
    const auto handle = is_legacy ? 0 : static_cast<uintptr_t>(number);
    if (handle != *stream) runtime.synchronize(reinterpret_cast<void*>(handle));
}

py::tuple read_tuple(const py::object& value, const char* part, const std::string& what) {
    if (py::isinstance<py::tuple>(value) || py::isinstance<py::list>(value)) return value;
    invalid(what, " got an array whose ", part, " is ", std::string(py::repr(value)),
            ", expected a tuple");
}

py::dtype dtype_of(const py::object& typestr, const std::string& what) {
    try {
        return py::dtype::from_args(typestr);
    } catch (const py::error_already_set&) {
        invalid(what, " got an array whose typestr is ", std::string(py::repr(typestr)),
                ", expected that of a NumPy type");
    }
}

// https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html, version 3: numba, CuPy,
// hip-python.
ArrayInfo read_cuda_array_interface(py::handle source, const std::string& what, UsedOn stream) {
    using Extents = std::vector<int64_t>;
    const py::object found = source.attr("__cuda_array_interface__");
    if (!py::isinstance<py::dict>(found)) {
        invalid(what, " got an array whose __cuda_array_interface__ is ",
                std::string(py::repr(found)), ", expected a dict");
    }
    const auto given = py::reinterpret_borrow<py::dict>(found);
    const auto entry = [&](const char* name) -> py::object {
        if (given.contains(name)) return given[name];
        invalid(what, " got an array whose __cuda_array_interface__ has no ", name);
    };
    ArrayInfo array;
    array.device = "cuda";
    array.is_any_gpu = true;
    const auto data = read_tuple(entry("data"), "data", what);
    if (data.size() != 2) invalid(what, " got an array whose data is no (address, is read-only)");
    array.ptr = address_of(data[0], what + " data");
    array.is_read_only = read_as<bool>(data[1], "data", what);
    array.shape = read_as<Extents>(read_tuple(entry("shape"), "shape", what), "shape", what);
    const py::dtype dtype = dtype_of(entry("typestr"), what);
    const auto item = static_cast<int64_t>(dtype.itemsize());
    array.data_type = type_of_dtype(dtype, array.type_name);
    const auto entry_or_none = [&](const char* name) {
        return given.contains(name) ? py::object(given[name]) : py::none();
    };
    const py::object strides = entry_or_none("strides");
    if (strides.is_none()) {
        array.strides = row_major_strides(array.shape);
    } else {
        array.strides = read_as<Extents>(read_tuple(strides, "strides", what), "strides", what);
        for (int64_t& stride : array.strides) {
            if (item == 0 || stride % item != 0) {
                invalid(what, " got an array whose strides are no multiples of its element size");
            }
            stride /= item;
        }
    }
    measure(array, item, what);
    wait_for(entry_or_none("stream"), stream, what);
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

const DeviceMemoryApi& gpu_runtime() {
    try {
        return DeviceMemoryApi::get();
    } catch (const Exception& e) {
        if (e.code() != ErrorCode::NOT_SUPPORTED) throw;
        py::module_::import("raggeddnn._gpu").attr("load_runtime")();
    }
    return DeviceMemoryApi::get();
}

std::optional<ArrayInfo> read_array(py::handle object, const std::string& what, UsedOn stream) {
    if (py::isinstance<py::array>(object)) {
        return read_numpy(py::reinterpret_borrow<py::array>(object), what);
    }
    if (py::hasattr(object, "data_ptr")) return read_data_ptr(object, what);
    if (py::hasattr(object, "__dlpack__")) return read_dlpack(object, what, stream);
    if (py::hasattr(object, "__cuda_array_interface__")) {
        return read_cuda_array_interface(object, what, stream);
    }
    return std::nullopt;
}

void* address_of(py::handle object, const std::string& what) {
    const bool is_integer = PyIndex_Check(object.ptr()) && !PyBool_Check(object.ptr());
    // CUdeviceptr and CUstream of cuda-bindings, Pointer of hip-python.
    const bool is_pointer = !is_integer && PyNumber_Check(object.ptr()) &&
                            (py::hasattr(object, "getPtr") || py::hasattr(object, "as_c_void_p"));
    if (!is_integer && !is_pointer) {
        invalid(what, " got ", describe(object), ", expected an array or an int pointer");
    }
    const py::object number =
        is_integer ? index_of(object)
                   : py::int_(py::object(py::reinterpret_borrow<py::object>(object)));
    const unsigned long long address = PyLong_AsUnsignedLongLong(number.ptr());
    if (PyErr_Occurred()) {
        PyErr_Clear();
        invalid(what, " got ", std::string(py::repr(object)), ", expected an address");
    }
    return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

Memory memory_of(py::handle object, const std::string& what, const std::string& device,
                 UsedOn stream) {
    if (object.is_none()) return {};
    if (auto array = read_array(object, what, stream)) {
        if (!array->is_on(device)) {
            invalid(what, " got memory on device ", array->device, ", expected ", device);
        }
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

PackReader::PackReader(const ExecutionPlan& plan, const py::dict& pack, UsedOn stream)
    : plan_(plan), stream_(stream), entries_(entries_of(pack)) {
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
    if (auto array = read_array(value, what, stream_))
        return add_array(tensor, std::move(*array), what);
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
    if (!array.is_on(expected)) {
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
