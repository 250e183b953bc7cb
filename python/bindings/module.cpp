// The table of contents of raggeddnn._core.
#include "bindings.hpp"

PYBIND11_MODULE(_core, m) {
    m.doc() = "The compiled core of raggeddnn; use the names of the package itself.";
    m.attr("__version__") = RAGGEDDNN_VERSION;
    raggeddnn::python::bind_errors(m);
    raggeddnn::python::bind_types(m);
    raggeddnn::python::bind_tensor_attributes(m);
    raggeddnn::python::bind_execution(m);
    raggeddnn::python::bind_calls(m);
    raggeddnn::python::bind_gpu(m);
    raggeddnn::python::bind_graph(m);
    raggeddnn::python::bind_tensor(m);
    raggeddnn::python::bind_testing(m);
}
