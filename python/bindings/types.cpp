// Enumerations, and scalars between Python and C++.
#include <pybind11/native_enum.h>
#include <pybind11/numpy.h>

#include <cmath>
#include <limits>

#include "bindings.hpp"
#include "raggeddnn/graph/ops/sdpa.hpp"

namespace raggeddnn::python {

void bind_types(py::module_& m) {
    py::native_enum<DataType> data_type(m, "DataType", "enum.IntEnum",
                                        "Element types, by hipDNN's frontend numbers.");
    for (const DataTypeInfo& row : DATA_TYPES) data_type.value(row.name.data(), row.type);
    data_type.finalize();
    py::native_enum<ScalarType>(
        m, "ScalarType", "enum.Enum",
        "Whether a scalar is a runtime parameter with a default, or a constant.")
        .value("RUNTIME_PARAM", ScalarType::RUNTIME_PARAM)
        .value("COMPILE_TIME_CONST", ScalarType::COMPILE_TIME_CONST)
        .finalize();
    py::native_enum<DiagonalAlignment>(m, "DiagonalAlignment", "enum.Enum",
                                       "Where the diagonal of a band mask starts: row 0 sees key "
                                       "0, or the last row sees the last key.")
        .value("TOP_LEFT", DiagonalAlignment::TOP_LEFT)
        .value("BOTTOM_RIGHT", DiagonalAlignment::BOTTOM_RIGHT)
        .finalize();
}

namespace {

bool is_python_or_numpy_bool(py::handle value) {
    if (PyBool_Check(value.ptr())) return true;
    return py::hasattr(value, "dtype") &&
           std::string(py::str(value.attr("dtype").attr("name"))) == "bool";
}

// The data type that a Python or NumPy scalar suggests.
DataType suggested_type(py::handle value, const std::string& what) {
    if (PyBool_Check(value.ptr())) return DataType::BOOLEAN;
    if (PyLong_Check(value.ptr())) {
        int overflow = 0;
        const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
        const bool is_small = overflow == 0 && number >= std::numeric_limits<int32_t>::min() &&
                              number <= std::numeric_limits<int32_t>::max();
        return is_small ? DataType::INT32 : DataType::INT64;
    }
    if (py::hasattr(value, "dtype")) {  // before float: numpy.float64 is one
        const std::string name = py::str(value.attr("dtype").attr("name"));
        if (name == "float64") return DataType::DOUBLE;
        if (name == "float32") return DataType::FLOAT;
        if (name == "float16") return DataType::HALF;
        if (name == "bfloat16") return DataType::BFLOAT16;
        if (name == "uint8") return DataType::UINT8;
        if (name == "int32") return DataType::INT32;
        if (name == "int64") return DataType::INT64;
        if (name == "bool") return DataType::BOOLEAN;
        invalid(what, " got a scalar of type ", name,
                ", expected float64, float32, float16, bfloat16, uint8, int32, int64 or bool");
    }
    if (PyFloat_Check(value.ptr())) return DataType::FLOAT;
    invalid(what, " got ", std::string(py::repr(value)), ", expected a number");
}

int64_t integer_of(py::handle value, DataType type, int64_t low, int64_t high,
                   const std::string& what) {
    const py::object index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
    if (!index) {
        PyErr_Clear();
        invalid(what, " got ", std::string(py::repr(value)), ", expected an integer for ",
                to_string(type));
    }
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    if (overflow != 0 || number < low || number > high) {
        invalid(what, " got ", std::string(py::repr(value)), ", which is out of range for ",
                to_string(type), ", expected ", low, " to ", high);
    }
    return number;
}

double real_of(py::handle value, DataType type, double largest, const std::string& what) {
    const bool is_complex = PyComplex_Check(value.ptr()) ||
                            (py::hasattr(value, "dtype") &&
                             std::string(py::str(value.attr("dtype").attr("kind"))) == "c");
    const double number = is_complex ? 0.0 : PyFloat_AsDouble(value.ptr());
    if (is_complex || (number == -1.0 && PyErr_Occurred())) {
        PyErr_Clear();
        invalid(what, " got ", std::string(py::repr(value)), ", expected a number for ",
                to_string(type));
    }
    if (std::isfinite(number) && std::fabs(number) > largest) {
        invalid(what, " got ", number, ", which is out of range for ", to_string(type),
                ", expected a magnitude of at most ", largest);
    }
    return number;
}

template <class Integer>
Integer narrow_integer(py::handle value, DataType type, const std::string& what) {
    using Limits = std::numeric_limits<Integer>;
    return static_cast<Integer>(integer_of(value, type, Limits::min(), Limits::max(), what));
}

}  // namespace

TensorAttributes::ValueVariant scalar_from_python(py::handle value, DataType declared,
                                                  const std::string& what) {
    const DataType type = declared == DataType::NOT_SET ? suggested_type(value, what) : declared;
    const bool is_bool = is_python_or_numpy_bool(value);
    if (is_bool && type != DataType::BOOLEAN) {
        invalid(what, " got ", std::string(py::repr(value)), ", expected a number for ",
                to_string(type));
    }
    switch (type) {
        case DataType::DOUBLE:
            return real_of(value, type, std::numeric_limits<double>::max(), what);
        case DataType::FLOAT:
            return static_cast<float>(
                real_of(value, type, std::numeric_limits<float>::max(), what));
        case DataType::HALF: return half(real_of(value, type, 65504.0, what));
        case DataType::BFLOAT16: return bfloat16(real_of(value, type, 0x1.fep127, what));
        case DataType::UINT8: return narrow_integer<uint8_t>(value, type, what);
        case DataType::INT32: return narrow_integer<int32_t>(value, type, what);
        case DataType::INT64: return narrow_integer<int64_t>(value, type, what);
        case DataType::BOOLEAN: {
            if (!is_bool) {
                invalid(what, " got ", std::string(py::repr(value)), ", expected a bool");
            }
            return PyObject_IsTrue(value.ptr()) == 1;
        }
        default:
            invalid(what, " is a scalar of type ", to_string(type),
                    ", expected DOUBLE, FLOAT, HALF, BFLOAT16, UINT8, INT32, INT64 or BOOLEAN");
    }
}

py::object scalar_to_python(const TensorAttributes::ValueVariant& value) {
    return std::visit(
        []<class T>(const T& v) -> py::object {
            if constexpr (std::is_same_v<T, std::monostate>) {
                return py::none();
            } else if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
                return py::float_(static_cast<double>(v));
            } else {
                return py::cast(v);
            }
        },
        value);
}

}  // namespace raggeddnn::python
