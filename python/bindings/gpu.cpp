// What Python asks of a GPU's runtime, and of arrays whose memory it must not touch.
#include "arrays.hpp"

namespace raggeddnn::python {

void bind_gpu(py::module_& m) {
    py::class_<ArrayInfo>(m, "ArrayFacts", "An array of any library on any device, looked at.")
        .def_property_readonly(
            "address", [](const ArrayInfo& x) { return reinterpret_cast<uintptr_t>(x.ptr); })
        .def_property_readonly("shape",
                               [](const ArrayInfo& x) { return py::tuple(py::cast(x.shape)); })
        .def_property_readonly(
            "strides", [](const ArrayInfo& x) { return py::tuple(py::cast(x.strides)); },
            "In elements.")
        .def_readonly("data_type", &ArrayInfo::data_type,
                      "NOT_SET for one that no tensor can have.")
        .def_readonly("type_name", &ArrayInfo::type_name, "As the array's library calls it.")
        .def_readonly("is_read_only", &ArrayInfo::is_read_only)
        .def_readonly("device", &ArrayInfo::device, "'cpu', 'cuda' or 'hip'.")
        .def("is_on", &ArrayInfo::is_on, py::arg("device"),
             "PyTorch and __cuda_array_interface__ say cuda of AMD's memory, too.");
    m.def("read_array", &read_array, py::arg("array"), py::arg("what"), py::arg("stream"),
          "None for what is no array. Raises InvalidValueError, naming `what`, for one that cannot "
          "be "
          "taken.");
    m.def(
        "gpu_device", [] { return std::string(gpu_runtime().device()); },
        "'cuda' or 'hip', whose runtime this process uses. Raises NotSupportedError, with what was "
        "looked for, where there is none with a device.");
    m.def(
        "synchronize_gpu",
        [] {
            const DeviceMemoryApi& runtime = gpu_runtime();
            const py::gil_scoped_release without_gil;
            runtime.synchronize_device();
        },
        "Waits for all work of the current device. Raises what has failed there.");
    m.def(
        "fill_gpu_with_zeros",
        [](uintptr_t address, size_t bytes, uintptr_t stream) {
            gpu_runtime().fill_with_zeros(reinterpret_cast<void*>(address), bytes,
                                          reinterpret_cast<void*>(stream));
        },
        py::arg("address"), py::arg("bytes"), py::arg("stream"), "In the order of the stream.");
}

}  // namespace raggeddnn::python
