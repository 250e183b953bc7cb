// The data SDK for raggeddnn.tensor: one class over any ITensor.
#include <pybind11/numpy.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "arrays.hpp"
#include "bindings.hpp"
#include "dlpack_export.hpp"
#include "raggeddnn/tensor/random_layout.hpp"
#include "tensor_data.hpp"

namespace raggeddnn::python {

py::tuple to_tuple(const std::vector<int64_t>& values) {
    py::tuple made(values.size());
    for (size_t i = 0; i < values.size(); ++i) made[i] = values[i];
    return made;
}

py::dict to_dict(const SentinelReport& report) {
    py::dict made;
    made["passed"] = report.passed();
    made["compared"] = report.compared;
    made["skipped"] = report.skipped;
    made["genuine_sentinels"] = report.genuine_sentinels;
    made["mismatched"] = report.mismatched;
    made["worst_index"] = to_tuple(report.worst_index);
    made["worst_reference"] = report.worst_reference;
    made["worst_other"] = report.worst_other;
    made["worst_error"] = report.worst_error;
    made["worst_limit"] = report.worst_limit;
    made["text"] = report.to_string();
    return made;
}

namespace {

using Indices = std::vector<int64_t>;

struct RaggedArguments {
    Indices dims;
    Indices strides;
    int seq_axis;
    const TensorData* aux;
    std::optional<size_t> count;
    int64_t multiplier;
};

// The indices of every element, in the order of dims.
struct IndexIterator {
    std::shared_ptr<const ITensor> tensor;
    ITensorIterator<true> here;
    ITensorIterator<true> end;
};

template <class Body>
decltype(auto) with_typed(ITensor& tensor, Body&& body) {
    return with_element_type(tensor.data_type(), [&]<class T>(std::type_identity<T>) {
        return body(dynamic_cast<TensorBase<T>&>(tensor));
    });
}

template <class T>
T value_from_python(py::handle value) {
    const std::string what = message("[tensor] value of ", to_string(DATA_TYPE_OF<T>));
    if constexpr (std::is_same_v<T, int8_t>) {  // no scalar of a graph
        const int32_t wide = std::get<int32_t>(scalar_from_python(value, DataType::INT32, what));
        if (wide < -128 || wide > 127) invalid(what, " got ", wide, ", expected -128 to 127");
        return static_cast<int8_t>(wide);
    } else {
        return std::get<T>(scalar_from_python(value, DATA_TYPE_OF<T>, what));
    }
}

template <class T>
py::object value_to_python(T value) {
    if constexpr (std::is_same_v<T, bool>) {
        return py::bool_(value);
    } else if constexpr (std::is_integral_v<T>) {
        return py::int_(static_cast<int64_t>(value));
    } else {
        return py::float_(static_cast<double>(value));
    }
}

ArrayInfo host_array(py::handle object, const char* what) {
    auto array = read_array(object, what);
    if (!array) {
        const std::string name = py::str(py::type::handle_of(object).attr("__name__"));
        invalid(what, " got ", name, ", expected an array");
    }
    if (array->device != "cpu") {
        invalid(what, " got memory on device ", array->device, ", expected cpu");
    }
    if (array->data_type == DataType::NOT_SET) {
        invalid(what, " got an array of type ", array->type_name, ", expected ", ELEMENT_TYPES);
    }
    return std::move(*array);
}

// A tensor over the array's memory, made by `make`, which must lie within the array.
template <class Make>
TensorData over_array(py::handle object, const char* what, Make&& make) {
    ArrayInfo array = host_array(object, what);
    TensorData data{make(array)};
    const ITensor& tensor = *data.tensor;
    if (tensor.element_space() > 0 &&
        reinterpret_cast<uintptr_t>(array.ptr) % tensor.element_size() != 0) {
        invalid(what, " got memory that is not aligned to its elements of ", tensor.element_size(),
                " bytes");
    }
    const size_t elements = static_cast<size_t>(array.extent_bytes) / tensor.element_size();
    if (elements < tensor.element_space()) {
        invalid(what, " got an array of ", elements, " elements, expected at least ",
                tensor.element_space());
    }
    data.is_read_only = array.is_read_only;
    data.keep_alive.push_back(py::reinterpret_borrow<py::object>(object));
    if (array.keep_alive) data.keep_alive.push_back(std::move(array.keep_alive));
    return data;
}

// On a device as engines state it, where there is one. Its memory is allocated at once.
TensorData on_device(TensorData data, const std::string& device) {
    if (device == "cpu") return data;
    if (device != "cuda" && device != "hip") {
        invalid("[tensor] device got '", device, "', expected 'cpu', 'cuda' or 'hip'");
    }
    const DeviceMemoryApi& runtime = gpu_runtime();
    if (runtime.device() != device) {
        invalid("[tensor] device got '", device, "', expected 'cpu' or '", runtime.device(),
                "', whose runtime is here");
    }
    const auto type = device == "hip" ? dlpack::ROCM : dlpack::CUDA;
    data.gpu = DeviceSide{{type, runtime.current_device()}};
    data.tensor->raw_device_data();
    return data;
}

TensorData make_dense(const Indices& dims, const std::optional<Indices>& strides, DataType type,
                      const std::string& device) {
    return with_element_type(type, [&]<class T>(std::type_identity<T>) {
        return on_device(TensorData{std::make_shared<Tensor<T>>(
                             dims, strides ? *strides : packed_strides(dims))},
                         device);
    });
}

TensorData make_shallow(py::handle object, const Indices& dims, const Indices& strides) {
    return over_array(object, "[tensor] array", [&](const ArrayInfo& array) {
        return make_shallow_itensor(array.data_type, array.ptr, dims, strides);
    });
}

// Offsets from an array: of rank 1, seen as [B + 1, 1, 1, 1], or of any other rank as it is.
TensorData make_aux(py::handle object) {
    return over_array(object, "[ragged tensor] ragged_offset", [](const ArrayInfo& array) {
        Indices dims = array.shape;
        Indices strides = array.strides;
        if (dims.size() == 1) {
            dims.resize(4, 1);
            strides.resize(4, 1);
        }
        return make_shallow_itensor(array.data_type, array.ptr, dims, strides);
    });
}

TensorData make_ragged(const RaggedArguments& given, DataType type, const std::string& device) {
    given.aux->on_host();
    return with_element_type(type, [&]<class T>(std::type_identity<T>) {
        TensorData data{std::make_shared<RaggedTensor<T>>(given.dims, given.strides, given.seq_axis,
                                                          given.aux->tensor, given.count,
                                                          given.multiplier)};
        data.keep_alive = given.aux->keep_alive;
        return on_device(std::move(data), device);
    });
}

TensorData make_shallow_ragged(py::handle object, const RaggedArguments& given) {
    given.aux->on_host();
    TensorData data = over_array(object, "[tensor] array", [&](const ArrayInfo& array) {
        return with_element_type(array.data_type, [&]<class T>(std::type_identity<T>) {
            return std::shared_ptr<ITensor>(std::make_shared<ShallowRaggedTensor<T>>(
                array.ptr, given.dims, given.strides, given.seq_axis, given.aux->tensor,
                given.count, given.multiplier));
        });
    });
    data.keep_alive.insert(data.keep_alive.end(), given.aux->keep_alive.begin(),
                           given.aux->keep_alive.end());
    return data;
}

py::object get_host_value(const TensorData& self, const Indices& index) {
    self.tensor->check_index(index);
    return with_typed(self.on_host(),
                      [&](auto& tensor) { return value_to_python(tensor.get_host_value(index)); });
}

void set_host_value(const TensorData& self, py::handle value, const Indices& index) {
    self.tensor->check_index(index);
    with_typed(self.writable(), [&]<class T>(TensorBase<T>& tensor) {
        tensor.set_host_value(value_from_python<T>(value), index);
    });
}

void fill_with_value(const TensorData& self, py::handle value) {
    with_typed(self.writable(), [&]<class T>(TensorBase<T>& tensor) {
        tensor.fill_with_value(value_from_python<T>(value));
    });
}

void fill_with_random_values(const TensorData& self, std::optional<double> low,
                             std::optional<double> high, uint64_t seed) {
    with_typed(self.writable(), [&]<class T>(TensorBase<T>& tensor) {
        const double bound = std::is_same_v<T, bool> || IS_REAL<T> ? 1 : 8;
        const double least = std::is_unsigned_v<T> ? 0 : -bound;  // bool is unsigned, too
        tensor.fill_with_random_values(low.value_or(least), high.value_or(bound), seed);
    });
}

// The array's elements in C order.
std::vector<unsigned char> gather(const ArrayInfo& array, size_t size) {
    const auto count = static_cast<size_t>(count_elements(array.shape));
    std::vector<unsigned char> bytes(count * size);
    Indices index(array.shape.size(), 0);
    for (size_t i = 0; i < count; ++i) {
        int64_t from = 0;
        for (size_t axis = 0; axis < index.size(); ++axis)
            from += index[axis] * array.strides[axis];
        std::memcpy(
            &bytes[i * size],
            static_cast<const unsigned char*>(array.ptr) + from * static_cast<int64_t>(size), size);
        for (size_t axis = index.size(); axis-- > 0;) {
            if (++index[axis] < array.shape[axis]) break;
            index[axis] = 0;
        }
    }
    return bytes;
}

// An array of a dense tensor's dims gives each element its own value; any other is the memory.
void fill_with_data(const TensorData& self, py::handle object) {
    ITensor& tensor = self.writable();
    const ArrayInfo array = host_array(object, "[tensor] data");
    if (array.data_type != tensor.data_type()) {
        invalid("[tensor] data got an array of type ", array.type_name, ", expected ",
                to_string(tensor.data_type()));
    }
    const size_t size = tensor.element_size();
    std::vector<unsigned char> bytes = gather(array, size);
    if (tensor.has_regular_dims() && array.shape == tensor.dims()) {
        std::vector<unsigned char> memory(tensor.element_space() * size);
        if (!memory.empty()) std::memcpy(memory.data(), tensor.raw_host_data(), memory.size());
        const unsigned char* from = bytes.data();
        for (auto it = tensor.begin(); it != tensor.end(); ++it, from += size) {
            std::memcpy(&memory[static_cast<size_t>(it.offset()) * size], from, size);
        }
        bytes = std::move(memory);
    }
    tensor.fill_with_data(bytes.data(), bytes.size());
}

// Dims and strides of the memory as other libraries see it: a ragged tensor's is flat.
std::pair<Indices, Indices> seen_outside(const ITensor& tensor) {
    if (tensor.has_regular_dims()) return {tensor.dims(), tensor.strides()};
    return {{static_cast<int64_t>(tensor.element_space())}, {1}};
}

const char* numpy_name(DataType type) {
    switch (type) {
        case DataType::FLOAT: return "float32";
        case DataType::DOUBLE: return "float64";
        case DataType::HALF: return "float16";
        case DataType::BFLOAT16: return "uint16";  // its bits, until seen as ml_dtypes' type
        case DataType::INT32: return "int32";
        case DataType::INT64: return "int64";
        case DataType::INT8: return "int8";
        case DataType::UINT8: return "uint8";
        default: return "bool";
    }
}

py::object to_numpy(const py::object& self) {
    const auto& data = self.cast<const TensorData&>();
    ITensor& tensor = data.on_host();
    const void* const memory =
        data.gpu ? std::as_const(tensor).raw_host_data() : tensor.raw_host_data();
    auto [dims, strides] = seen_outside(tensor);
    for (int64_t& stride : strides) stride *= static_cast<int64_t>(tensor.element_size());
    py::object array =
        py::array(py::dtype(numpy_name(tensor.data_type())), dims, strides, memory, self);
    if (data.gpu) array = array.attr("copy")("K");
    if (data.is_read_only) array.attr("setflags")(py::arg("write") = false);
    if (tensor.data_type() != DataType::BFLOAT16) return array;
    try {
        return array.attr("view")(py::module_::import("ml_dtypes").attr("bfloat16"));
    } catch (py::error_already_set& e) {
        if (!e.matches(PyExc_ImportError)) throw;
        fail(ErrorCode::NOT_SUPPORTED,
             "[tensor] got a request for a NumPy array of BFLOAT16 without the package ml_dtypes, "
             "expected it to be installed");
    }
}

// stream: of a GPU, as DeviceSide has it.
py::capsule to_dlpack(const py::object& self, bool is_versioned, int64_t stream) {
    const auto& data = self.cast<const TensorData&>();
    auto [dims, strides] = seen_outside(*data.tensor);
    void* const memory = data.gpu ? data.on_gpu(stream) : data.tensor->raw_host_data();
    return export_dlpack(
        {memory, data.tensor->data_type(), std::move(dims), std::move(strides), data.is_read_only,
         data.gpu ? data.gpu->device : dlpack::Device{dlpack::CPU, 0}, self},
        is_versioned);
}

py::tuple dlpack_device(const TensorData& data) {
    const dlpack::Device device = data.gpu ? data.gpu->device : dlpack::Device{dlpack::CPU, 0};
    return py::make_tuple(static_cast<int32_t>(device.type), device.id);
}

py::dict compare(const TensorData& reference, const TensorData& other, double absolute,
                 double relative, std::optional<int> seq_axis) {
    return to_dict(all_close_skip_sentinel(reference.on_host(), other.on_host(),
                                           Tolerance{.absolute = absolute, .relative = relative},
                                           seq_axis));
}

py::tuple random_layout(uint64_t seed, int64_t batches, int64_t max_rows, const std::string& kind) {
    std::string names;
    for (const LayoutKindName& row : LAYOUT_KINDS) {
        names += (names.empty() ? "" : ", ") + std::string(row.name);
        if (row.name != kind) continue;
        const RaggedLayout made = random_ragged_layout(seed, batches, max_rows, row.kind);
        return py::make_tuple(made.seq_lens, made.row_offsets, made.physical_rows);
    }
    invalid("[random_ragged_layout] kind got ", kind, ", expected one of ", names);
}

void bind_makers(py::class_<TensorData, std::shared_ptr<TensorData>>& cls) {
    cls.def_static("dense", &make_dense, py::arg("dims"), py::arg("strides"), py::arg("data_type"),
                   py::arg("device"))
        .def_static("shallow", &make_shallow, py::arg("array"), py::arg("dims"), py::arg("strides"))
        .def_static("aux", &make_aux, py::arg("array"))
        .def_static(
            "ragged",
            [](const Indices& dims, const Indices& strides, int seq_axis, const TensorData& aux,
               std::optional<size_t> count, DataType type, int64_t multiplier,
               const std::string& device) {
                return make_ragged({dims, strides, seq_axis, &aux, count, multiplier}, type,
                                   device);
            },
            py::arg("dims"), py::arg("strides"), py::arg("seq_axis"), py::arg("ragged_offset"),
            py::arg("count"), py::arg("data_type"), py::arg("multiplier"), py::arg("device"))
        .def_static(
            "shallow_ragged",
            [](py::handle array, const Indices& dims, const Indices& strides, int seq_axis,
               const TensorData& aux, std::optional<size_t> count, int64_t multiplier) {
                return make_shallow_ragged(array,
                                           {dims, strides, seq_axis, &aux, count, multiplier});
            },
            py::arg("array"), py::arg("dims"), py::arg("strides"), py::arg("seq_axis"),
            py::arg("ragged_offset"), py::arg("count"), py::arg("multiplier"));
}

void bind_geometry(py::class_<TensorData, std::shared_ptr<TensorData>>& cls) {
    const auto ask = [&cls](const char* name, auto question) {
        cls.def(name, [question](const TensorData& self) { return question(*self.tensor); });
    };
    ask("data_type", [](const ITensor& t) { return t.data_type(); });
    ask("dims", [](const ITensor& t) { return t.dims(); });
    ask("strides", [](const ITensor& t) { return t.strides(); });
    ask("element_count", [](const ITensor& t) { return t.element_count(); });
    ask("element_space", [](const ITensor& t) { return t.element_space(); });
    ask("is_packed", [](const ITensor& t) { return t.is_packed(); });
    ask("has_regular_dims", [](const ITensor& t) { return t.has_regular_dims(); });
    cls.def(
        "get_index",
        [](const TensorData& self, const Indices& index) {
            self.tensor->check_index(index);
            return self.tensor->get_index(index);
        },
        py::arg("indices"));
    cls.def("indices", [](const TensorData& self) {
        const ITensor& tensor = *self.tensor;
        return IndexIterator{self.tensor, tensor.begin(), tensor.end()};
    });
}

}  // namespace

void bind_tensor(py::module_& m) {
    py::class_<IndexIterator>(m, "TensorIndices", "Iterates over the indices of a tensor.")
        .def("__iter__", [](py::object self) { return self; })
        .def("__next__", [](IndexIterator& self) -> py::tuple {
            if (self.here == self.end) throw py::stop_iteration();
            py::tuple index = to_tuple(self.here.indices());
            ++self.here;
            return index;
        });
    py::class_<TensorData, std::shared_ptr<TensorData>> cls(
        m, "TensorData", "What the classes of raggeddnn.tensor hold.");
    bind_makers(cls);
    bind_geometry(cls);
    cls.def("get_host_value", &get_host_value, py::arg("indices"))
        .def("set_host_value", &set_host_value, py::arg("value"), py::arg("indices"))
        .def("fill_with_value", &fill_with_value, py::arg("value"))
        .def("fill_with_sentinel_value",
             [](const TensorData& self) { self.writable().fill_with_sentinel_value(); })
        .def("fill_with_random_values", &fill_with_random_values, py::arg("low"), py::arg("high"),
             py::arg("seed"))
        .def("fill_with_data", &fill_with_data, py::arg("data"))
        .def("numpy", &to_numpy)
        .def("device", &TensorData::device)
        .def("dlpack", &to_dlpack, py::arg("is_versioned"), py::arg("stream"))
        .def("dlpack_device", &dlpack_device);
    m.def("compare_skip_sentinel", &compare, py::arg("reference"), py::arg("other"),
          py::arg("absolute"), py::arg("relative"), py::arg("seq_axis"));
    m.def("random_ragged_layout", &random_layout, py::arg("seed"), py::arg("batches"),
          py::arg("max_rows"), py::arg("kind"));
}

}  // namespace raggeddnn::python
