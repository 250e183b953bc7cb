// The operations of Graph, one binding file per family; graph.cpp calls them.
#pragma once

#include "bindings.hpp"
#include "raggeddnn/graph/graph.hpp"

namespace raggeddnn::python {

void bind_graph_sdpa(py::class_<Graph>& c);
void bind_graph_ops(py::class_<Graph>& c);

// Their enumerations, before anything that names them.
void bind_graph_op_types(py::module_& m);

}  // namespace raggeddnn::python
