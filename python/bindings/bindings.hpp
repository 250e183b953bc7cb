// What the binding files share: one function per layer, called by module.cpp.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "raggeddnn/backend/selection.hpp"
#include "raggeddnn/base/error.hpp"
#include "raggeddnn/graph/tensor_attributes.hpp"
#include "raggeddnn/tensor/data_type.hpp"

namespace raggeddnn::python {

namespace py = pybind11;

void bind_errors(py::module_& m);
void bind_types(py::module_& m);
void bind_tensor_attributes(py::module_& m);
void bind_execution(py::module_& m);
void bind_calls(py::module_& m);
void bind_gpu(py::module_& m);
void bind_graph(py::module_& m);
void bind_tensor(py::module_& m);
void bind_testing(py::module_& m);

inline void raise_if_bad(const Error& error) {
    if (error.is_bad()) throw Exception(error.code, error.err_msg);
}

// Text of C++: names come from files and may be no UTF-8, which must not hide what is to be said.
inline py::str to_text(std::string_view text) {
    return py::reinterpret_steal<py::str>(
        PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

// Borrowed: lives as long as the bytes object.
inline std::span<const uint8_t> to_span(const py::bytes& data) {
    const std::string_view text = data;
    return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

inline py::bytes to_bytes(std::span<const uint8_t> data) {
    return {reinterpret_cast<const char*>(data.data()), data.size()};
}

// A Python or NumPy scalar as a value of `declared`, or of the type it suggests where that is
// NOT_SET: bool BOOLEAN, int INT32 (INT64 beyond its range), float FLOAT, NumPy scalars their own.
// Out of range, or no number: INVALID_VALUE, naming `what`.
TensorAttributes::ValueVariant scalar_from_python(py::handle value, DataType declared,
                                                  const std::string& what);
py::object scalar_to_python(const TensorAttributes::ValueVariant& value);

// The entries of a dict as they are now, with references of their own: reading them may run Python
// code, and other threads, which may change the dict.
inline std::vector<std::pair<py::object, py::object>> entries_of(const py::dict& dict) {
    std::vector<std::pair<py::object, py::object>> entries;
    entries.reserve(dict.size());
    for (const auto& [key, value] : dict) {
        entries.emplace_back(py::reinterpret_borrow<py::object>(key),
                             py::reinterpret_borrow<py::object>(value));
    }
    return entries;
}

// Ints, floats and strings by name; INVALID_VALUE for anything else.
std::map<std::string, KnobValue> knobs_from(const std::optional<py::dict>& knobs);

}  // namespace raggeddnn::python
