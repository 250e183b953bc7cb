// Graph: cuDNN-frontend's Python calls.
#include "raggeddnn/graph/graph.hpp"

#include <algorithm>
#include <array>

#include "arrays.hpp"
#include "graph_ops.hpp"
#include "raggeddnn/backend/handle.hpp"
#include "raggeddnn/backend/selection.hpp"
#include "raggeddnn/graph/ops/shapes.hpp"
#include "raggeddnn/plugin/api_version.hpp"
#include "raggeddnn/schema/blob.hpp"
#include "raggeddnn/schema/json.hpp"

namespace raggeddnn::python {

std::map<std::string, KnobValue> knobs_from(const std::optional<py::dict>& knobs) {
    std::map<std::string, KnobValue> result;
    if (!knobs) return result;
    for (const auto& [key, value] : entries_of(*knobs)) {
        const std::string name = py::str(key);
        if (PyBool_Check(value.ptr()) || PyLong_Check(value.ptr())) {
            result[name] = value.cast<int64_t>();
        } else if (PyFloat_Check(value.ptr())) {
            result[name] = value.cast<double>();
        } else if (PyUnicode_Check(value.ptr())) {
            result[name] = value.cast<std::string>();
        } else {
            invalid("knob '", name, "' is ", std::string(py::repr(value)),
                    ", expected an int, a float or a str");
        }
    }
    return result;
}

namespace {

using Dims = std::vector<int64_t>;
using MaybeTensor = std::optional<TensorPtr>;

TensorPtr tensor_from_scalar(Graph& g, py::object scalar, ScalarType type) {
    TensorAttributes t;
    t.set_compile_time_constant(scalar_from_python(scalar, DataType::NOT_SET, "tensor"));
    t.set_is_pass_by_value(type == ScalarType::RUNTIME_PARAM);
    return g.tensor(t);
}

TensorPtr tensor_from_keywords(Graph& g, Dims dim, std::optional<Dims> stride, std::string name,
                               std::optional<DataType> data_type, std::optional<int64_t> uid,
                               int64_t alignment, MaybeTensor ragged_offset, int64_t multiplier) {
    TensorAttributes t;
    t.set_name(std::move(name)).set_alignment(alignment);
    t.set_stride(stride ? std::move(*stride)
                        : graph_ops::packed_strides(dim, ragged_offset.has_value()));
    t.set_dim(std::move(dim));
    if (data_type) t.set_data_type(*data_type);
    if (uid) t.set_uid(*uid);
    t.set_ragged_offset(ragged_offset.value_or(nullptr)).set_ragged_offset_multiplier(multiplier);
    return g.tensor(t);
}

TensorPtr tensor_like(Graph& g, py::object array, std::string name) {
    const auto info = read_array(array, "tensor_like");
    if (!info) {
        invalid("tensor_like got ", std::string(py::repr(py::type::of(array))),
                ", expected an array of NumPy, PyTorch or another DLPack producer");
    }
    if (info->data_type == DataType::NOT_SET) {
        invalid("tensor_like got an array of type ", info->type_name, ", which no tensor can have");
    }
    TensorAttributes t;
    t.set_name(std::move(name)).set_data_type(info->data_type);
    int64_t elements = 1;
    for (const int64_t n : info->shape) elements *= n;
    if (info->device == "cpu" && info->shape.size() <= 1 && elements == 1) {
        t.set_as_runtime_parameter();  // a host scalar array
    } else {
        t.set_dim(info->shape).set_stride(info->strides);
    }
    return g.tensor(t);
}

std::shared_ptr<ExecutionPlan> build(Graph& g, hipdnnHandle* handle,
                                     std::optional<std::string> engine,
                                     const std::optional<py::dict>& knobs) {
    raise_if_bad(g.build(handle, BuildOptions{std::move(engine), knobs_from(knobs)}));
    return std::const_pointer_cast<ExecutionPlan>(g.plan());
}

void bind_construction(py::class_<Graph>& c) {
    c.def(py::init([](std::string name, DataType io, DataType intermediate, DataType compute) {
              auto g = std::make_unique<Graph>();
              g->set_name(std::move(name)).set_io_data_type(io);
              g->set_intermediate_data_type(intermediate).set_compute_data_type(compute);
              return g;
          }),
          py::arg("name") = "", py::arg("io_data_type") = DataType::BFLOAT16,
          py::arg("intermediate_data_type") = DataType::FLOAT,
          py::arg("compute_data_type") = DataType::FLOAT);
    c.def_property_readonly("name", [](const Graph& g) { return to_text(g.get_name()); });
    c.def("set_runtime_default_override", &Graph::set_runtime_default_override, py::arg("value"),
          py::return_value_policy::reference_internal,
          "True: a variant-pack entry overrides a runtime default. False (default): it is inert.");
    c.def("set_override_shape_enabled", &Graph::set_override_shape_enabled, py::arg("value"),
          py::return_value_policy::reference_internal,
          "True: each execute may give other dims and strides (overrides=).");
    c.def(
        "tensor", [](Graph& g, TensorPtr t) { return g.tensor(std::move(t)); },
        py::arg("attributes").none(false), "Adds a tensor and returns it.");
    c.def("tensor", &tensor_from_scalar, py::arg("scalar"), py::arg("type"),
          "A scalar: RUNTIME_PARAM with this default, or COMPILE_TIME_CONST.");
    c.def("tensor", &tensor_from_keywords, py::kw_only(), py::arg("dim"),
          py::arg("stride") = py::none(), py::arg("name") = "", py::arg("data_type") = py::none(),
          py::arg("uid") = py::none(), py::arg("alignment") = 16,
          py::arg("ragged_offset") = py::none(), py::arg("ragged_offset_multiplier") = 1,
          "Adds a tensor. dim, stride: in elements (stride None: row-major, of a ragged tensor "
          "[S*H*D, D, H*D, 1]); data_type None: the graph's io_data_type; alignment: bytes.");
    c.def(
        "tensor_like", &tensor_like, py::arg("array"), py::arg("name") = "",
        "A tensor with the dims, strides and type of an array; a host array of one element gives a "
        "runtime scalar.");
}

// Drawings are made in Python; imported when one is asked for, as it imports this module.
std::string render(const py::object& graph, const std::string& format) {
    static const std::array<std::string_view, 3> formats = {"text", "mermaid", "svg"};
    if (std::find(formats.begin(), formats.end(), format) == formats.end()) {
        invalid("render got the format '", format, "', expected 'text', 'mermaid' or 'svg'");
    }
    const py::module_ diagram = py::module_::import("raggeddnn.diagram");
    return diagram.attr(("to_" + format).c_str())(graph).cast<std::string>();
}

void bind_diagrams(py::class_<Graph>& c) {
    c.def("draft_json", &Graph::draft_json,
          "JSON with hipDNN's keys of the graph as it stands, unchecked. The graph is not changed: "
          "uids that it lacks, and what can be inferred, are in the text only. Raises "
          "InvalidValueError for two tensors with one uid and for an offset of another graph.");
    c.def("render", &render, py::arg("format") = "text",
          "A drawing of the graph as it stands, as 'text', 'mermaid' or 'svg' (raggeddnn.diagram). "
          "The graph is not changed. Raises InvalidValueError for another format.");
    c.def(
        "_repr_svg_", [](const py::object& graph) { return render(graph, "svg"); },
        "The drawing that notebooks show.");
}

void bind_use(py::class_<Graph>& c) {
    c.def(
        "validate", [](Graph& g) { raise_if_bad(g.validate()); },
        "Assigns uids, infers what was left out, checks everything. What it chose is shown by the "
        "tensors, and chosen anew the next time: until the graph is final, even a uid may change.");
    c.def("build", &build, py::arg("handle") = py::none(), py::kw_only(),
          py::arg("engine") = py::none(), py::arg("knobs") = py::none(),
          "Validates, chooses an engine (by name: 'reference', 'cpu', 'hip', or any plugin's), and "
          "returns the plan. The graph is final from then on. Raises NotSupportedError when no "
          "engine "
          "can run it.");
    c.def(
        "execute",
        [](const Graph& g, const py::dict& pack, py::object workspace, hipdnnHandle* handle,
           const std::optional<py::dict>& overrides) {
            const auto plan = g.plan();  // stays, whatever is built meanwhile
            if (!plan) invalid("graph '", g.get_name(), "': execute before build");
            execute_with_handle(*plan, handle, {pack, workspace, overrides});
        },
        py::arg("variant_pack"), py::arg("workspace") = py::none(), py::arg("handle") = py::none(),
        py::arg("overrides") = py::none(), "Runs the plan that build made last.");
    c.def("explain", &Graph::explain, py::arg("handle") = py::none(),
          "One verdict per engine: whether it can run the graph, and why not.");
    c.def_property_readonly("tensors", &Graph::tensors);
    c.def_property_readonly("min_required_engine_api_version", [](Graph& g) {
        const plugin::ApiVersion v = g.min_required_engine_api_version();
        return py::make_tuple(v.major, v.minor, v.patch);
    });
    c.def_property_readonly("min_reader_version", &Graph::min_reader_version);
    c.def(
        "serialize", [](Graph& g) { return to_bytes(g.serialize()); },
        "FlatBuffers bytes in hipDNN's wire format. The graph is final from then on.");
    c.def_static(
        "deserialize", [](const py::bytes& data) { return Graph::deserialize(to_span(data)); },
        py::arg("data"),
        "A graph from bytes of serialize or of a container; it can be built, not "
        "changed. Raises InvalidValueError for damaged bytes, NotSupportedError for a "
        "graph that needs a newer reader.");
    c.def(
        "to_json", [](Graph& g) { return schema::graph_to_json(g.finalized().graph()); },
        "JSON with hipDNN's keys. The graph is final from then on.");
    c.def_static(
        "from_json", [](std::string_view text) { return Graph::from_json(text); }, py::arg("text"),
        "A graph from the JSON of to_json or of hipDNN; it can be built, not changed. Keys that "
        "are "
        "missing take their defaults. Raises InvalidValueError, naming the path, for damaged text, "
        "unknown keys and values out of range; NotSupportedError for a graph that needs a newer "
        "reader.");
}

}  // namespace

void bind_graph(py::module_& m) {
    m.attr("K_GRAPH_READER_VERSION") = schema::K_GRAPH_READER_VERSION;
    bind_graph_op_types(m);
    py::class_<Graph> c(
        m, "Graph",
        "Operations over tensors. Build it once, execute the plan with any buffers, "
        "offsets, lengths and runtime scalars.");
    bind_construction(c);
    bind_graph_ops(c);
    bind_graph_sdpa(c);
    bind_use(c);
    bind_diagrams(c);
}

}  // namespace raggeddnn::python
