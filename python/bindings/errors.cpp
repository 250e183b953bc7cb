// C++ failures as the exceptions of raggeddnn.errors.
#include "bindings.hpp"

namespace raggeddnn::python {

namespace {

const char* class_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::INVALID_VALUE:
        case ErrorCode::ATTRIBUTE_NOT_SET: return "InvalidValueError";
        case ErrorCode::NOT_SUPPORTED: return "NotSupportedError";
        case ErrorCode::PLUGIN_ERROR: return "PluginError";
        default: return "Error";
    }
}

}  // namespace

void bind_errors(py::module_&) {
    py::register_exception_translator([](std::exception_ptr pointer) {
        try {
            if (pointer) std::rethrow_exception(pointer);
        } catch (const Exception& e) {
            const py::object type =
                py::module_::import("raggeddnn.errors").attr(class_of(e.code()));
            py::object error = type(to_text(e.what()));
            error.attr("status") = to_string(e.code());
            PyErr_SetObject(type.ptr(), error.ptr());
        }
    });
}

}  // namespace raggeddnn::python
