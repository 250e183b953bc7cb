// Handles, plugins, engines and plans.
#include <filesystem>

#include "arrays.hpp"
#include "raggeddnn/backend/execution_plan.hpp"
#include "raggeddnn/backend/handle.hpp"
#include "raggeddnn/backend/plugin_registry.hpp"
#include "raggeddnn/schema/blob.hpp"
#include "raggeddnn/schema/json.hpp"

namespace raggeddnn::python {

namespace {

using backend::PluginRegistry;

constexpr const char* HOST = "cpu";

// A getter of a string that comes from a plugin.
template <class T>
auto text_member(std::string T::* member) {
    return [member](const T& object) { return to_text(object.*member); };
}

// One row of raggeddnn.engines().
struct EngineRow {
    std::string name;
    py::object id;
    std::string plugin;
    std::string version;
    std::string api_version;
    std::string device;
    bool available = false;
    std::string reason;
    std::string path;
};

// An engine that fails to answer is not available.
std::string why_unavailable(const backend::LoadedEngine& engine) {
    try {
        return engine.library->why_unavailable(engine.info.id);
    } catch (const Exception& e) {
        return e.what();
    }
}

std::vector<EngineRow> engine_rows() {
    std::vector<EngineRow> rows;
    for (const backend::LoadedEngine& e : PluginRegistry::instance().engines()) {
        const std::string reason = why_unavailable(e);
        rows.push_back({e.info.name, py::int_(e.info.id), e.library->name(), e.library->version(),
                        plugin::to_string(e.library->api_version()), e.info.device, reason.empty(),
                        reason, e.library->path()});
    }
    for (const backend::PluginEntry& entry : PluginRegistry::instance().plugins()) {
        for (const backend::DroppedEngine& engine : entry.dropped) {
            rows.push_back({engine.name, py::none(), entry.library->name(),
                            entry.library->version(),
                            plugin::to_string(entry.library->api_version()), "", false,
                            engine.reason, entry.path});
        }
        if (entry.library) continue;
        const std::string stem = std::filesystem::path(entry.path).stem().string();
        rows.push_back({stem, py::none(), entry.path, "", "", "", false, entry.reason, entry.path});
    }
    return rows;
}

// None, an address, or an object that has one: of PyTorch, CuPy, cuda-bindings, cuda.core,
// hip-python, or whatever else has NVIDIA's __cuda_stream__, which gives (version, address).
void* stream_pointer(py::handle stream) {
    if (stream.is_none()) return nullptr;
    for (const char* attribute : {"cuda_stream", "hip_stream", "ptr"}) {
        if (py::hasattr(stream, attribute)) {
            return address_of(stream.attr(attribute), message("stream.", attribute));
        }
    }
    if (!py::hasattr(stream, "__cuda_stream__")) return address_of(stream, "stream");
    const py::object given = stream.attr("__cuda_stream__")();
    if (!py::isinstance<py::tuple>(given) || py::len(given) != 2) {
        invalid("stream.__cuda_stream__() got ", std::string(py::repr(given)),
                ", expected (version, address)");
    }
    return address_of(py::tuple(given)[1], "stream.__cuda_stream__()");
}

// The backend looks for the runtime's library where the loader does, and among those loaded.
void load_runtime_for_workspace() {
    try {
        gpu_runtime();
    } catch (const Exception& e) {  // of none the backend tells, with what it needs it for
        if (e.code() != ErrorCode::NOT_SUPPORTED) throw;
    }
}

// {TensorAttributes or uid: (dims, strides)}
std::vector<ShapeOverride> read_overrides(const std::optional<py::dict>& overrides) {
    std::vector<ShapeOverride> result;
    if (!overrides) return result;
    for (const auto& [key, value] : entries_of(*overrides)) {
        const int64_t uid = uid_of_key(key, "overrides");
        try {
            const auto [dims, strides] =
                value.cast<std::pair<std::vector<int64_t>, std::vector<int64_t>>>();
            result.push_back({uid, dims, strides});
        } catch (const py::cast_error&) {
            invalid("overrides: uid ", uid, " got ", std::string(py::repr(value)),
                    ", expected (dims, strides) of ints of 64 bits");
        }
    }
    return result;
}

UsedOn stream_of(const ExecutionPlan& plan, const hipdnnHandle& handle) {
    if (plan.device() == HOST) return {};
    return reinterpret_cast<uintptr_t>(handle.stream());
}

Memory workspace_of(const ExecutionPlan& plan, py::handle given, const UsedOn& stream) {
    const Memory workspace = memory_of(given, "workspace", plan.device(), stream);
    if (workspace.ptr && workspace.extent_bytes >= 0 &&
        static_cast<size_t>(workspace.extent_bytes) < plan.workspace_size()) {
        invalid("workspace has ", workspace.extent_bytes, " bytes, expected at least ",
                plan.workspace_size());
    }
    if (plan.device() != HOST && plan.workspace_size() > 0 && !workspace.ptr) {
        load_runtime_for_workspace();
    }
    return workspace;
}

void execute(const ExecutionPlan& plan, hipdnnHandle& handle, const ExecuteCall& call) {
    const UsedOn stream = stream_of(plan, handle);
    const Memory workspace = workspace_of(plan, call.workspace, stream);
    const PackReader reader(plan, call.pack, stream);
    const std::vector<ShapeOverride> overrides = read_overrides(call.overrides);
    const py::gil_scoped_release without_gil;
    plan.execute(handle, reader.bindings(), workspace.ptr, overrides);
}

void execute_plan(const ExecutionPlan& plan, const py::dict& pack, py::object workspace,
                  py::object stream, const std::optional<py::dict>& overrides) {
    hipdnnHandle& handle = hipdnnHandle::of_thread(plan.device());
    handle.set_stream(stream_pointer(stream));
    execute(plan, handle, {pack, workspace, overrides});
}

std::optional<py::str> metadata_faults(const ExecutionPlan& plan, const py::object& workspace,
                                       const py::object& stream) {
    hipdnnHandle& handle = hipdnnHandle::of_thread(plan.device());
    handle.set_stream(stream_pointer(stream));
    const Memory memory = workspace_of(plan, workspace, stream_of(plan, handle));
    const std::optional<std::string> text = [&] {
        const py::gil_scoped_release without_gil;
        return plan.metadata_faults(handle, memory.ptr);
    }();
    return text ? std::optional(to_text(*text)) : std::nullopt;
}

// JSON of any blob, for `raggeddnn inspect`.
std::string describe_blob(const py::bytes& data) {
    const std::span<const uint8_t> bytes = to_span(data);
    const schema::BlobKind kind = schema::identify(bytes);
    std::string graph = "null";
    std::string plan = "null";
    std::vector<std::string> warnings;
    const auto add_graph = [&](std::span<const uint8_t> part) {
        const schema::GraphBlob blob = schema::GraphBlob::read(part);
        graph = schema::graph_to_json(blob.graph());
        warnings.insert(warnings.end(), blob.unknown_slots().begin(), blob.unknown_slots().end());
    };
    const auto add_plan = [&](std::span<const uint8_t> part) {
        const schema::PlanBlob blob = schema::PlanBlob::read(part);
        plan = schema::plan_to_json(blob.plan());
        warnings.insert(warnings.end(), blob.unknown_slots().begin(), blob.unknown_slots().end());
    };
    if (kind == schema::BlobKind::GRAPH) add_graph(bytes);
    if (kind == schema::BlobKind::EXECUTION_PLAN) add_plan(bytes);
    if (kind == schema::BlobKind::GRAPH_AND_PLAN) {
        const schema::ContainerBlob container = schema::read_container(bytes);
        if (container.graph) add_graph(*container.graph);
        if (container.plan) add_plan(*container.plan);
    }
    const py::object dumps = py::module_::import("json").attr("dumps");
    return message("{\"kind\": \"", schema::to_string(kind), "\", \"graph\": ", graph,
                   ", \"plan\": ", plan, ", \"warnings\": ", std::string(py::str(dumps(warnings))),
                   "}");
}

}  // namespace

void execute_with_handle(const ExecutionPlan& plan, hipdnnHandle* handle, const ExecuteCall& call) {
    execute(plan, handle ? *handle : hipdnnHandle::of_thread(plan.device()), call);
}

void bind_execution(py::module_& m) {
    py::class_<hipdnnHandle>(
        m, "Handle",
        "A device and a stream. Use one from one thread at a time; without one, "
        "each thread has its own.")
        .def(py::init([](py::object stream, const std::string& device) {
                 return std::make_unique<hipdnnHandle>(device, stream_pointer(stream));
             }),
             py::arg("stream") = py::none(), py::arg("device") = "cpu",
             "stream: an address, or a stream of PyTorch, CuPy, cuda-bindings or hip-python, or "
             "what "
             "else has __cuda_stream__; None: the default stream. device: 'cpu', 'hip' or 'cuda'.")
        .def_property_readonly("device", &hipdnnHandle::device)
        .def_property(
            "stream", [](const hipdnnHandle& h) { return reinterpret_cast<uintptr_t>(h.stream()); },
            [](hipdnnHandle& h, py::object stream) { h.set_stream(stream_pointer(stream)); });

    py::class_<EngineRow>(m, "EngineInfo", "An engine, or a plugin file that could not be loaded.")
        .def_property_readonly("name", text_member(&EngineRow::name))
        .def_readonly("id", &EngineRow::id, "64-bit FNV-1a of the name; None if not loaded.")
        .def_property_readonly("plugin", text_member(&EngineRow::plugin))
        .def_property_readonly("version", text_member(&EngineRow::version))
        .def_property_readonly("api_version", text_member(&EngineRow::api_version))
        .def_property_readonly("device", text_member(&EngineRow::device),
                               "Where its buffers live; empty: unstated.")
        .def_readonly("available", &EngineRow::available)
        .def_property_readonly("reason", text_member(&EngineRow::reason),
                               "Why it is not available.")
        .def_property_readonly("path", text_member(&EngineRow::path), "The plugin's file.")
        .def("__repr__", [](const EngineRow& row) {
            return to_text(
                message("<EngineInfo ", row.name, row.available ? "" : ": " + row.reason, ">"));
        });

    py::class_<Verdict>(m, "Verdict", "What is said of one engine about one graph.")
        .def_property_readonly("engine", text_member(&Verdict::engine))
        .def_property_readonly("plugin", text_member(&Verdict::plugin))
        .def_property_readonly("api_version", text_member(&Verdict::api_version))
        .def_readonly("applicable", &Verdict::applicable)
        .def_property_readonly("reason", text_member(&Verdict::reason),
                               "Why not; of an applicable engine, remarks.")
        .def("__repr__", [](const Verdict& v) {
            return message("<Verdict ", v.engine, ": ",
                           v.applicable ? "applicable" : "not applicable",
                           v.reason.empty() ? "" : ", " + v.reason, ">");
        });

    py::class_<ExecutionPlan, std::shared_ptr<ExecutionPlan>>(
        m, "ExecutionPlan",
        "A graph compiled by one engine; execute it many times, from any thread.")
        .def_property_readonly("engine_name", &ExecutionPlan::engine_name)
        .def_property_readonly("engine_id", &ExecutionPlan::engine_id)
        .def_property_readonly("device", &ExecutionPlan::device)
        .def_property_readonly("workspace_size", &ExecutionPlan::workspace_size, "In bytes.")
        .def(
            "explain_kernel",
            [](const ExecutionPlan& plan) { return to_text(plan.explain_kernel()); },
            "Which kernels run, their tile sizes, and why these: a line for each node, as the "
            "engine tells it.")
        .def("__repr__",
             [](const ExecutionPlan& plan) {
                 return to_text("<ExecutionPlan " + plan.describe() + ">");
             })
        .def(
            "execute", &execute_plan, py::arg("variant_pack"), py::arg("workspace") = py::none(),
            py::arg("stream") = py::none(), py::arg("overrides") = py::none(),
            "Runs the plan. variant_pack: {tensor or uid: array, int pointer, or, for a runtime "
            "scalar, a number}. Raises InvalidValueError before anything is written when a buffer, "
            "an offset or a length is wrong. overrides: {tensor or uid: (dims, strides)}, for a "
            "graph with overridable shapes.")
        .def(
            "metadata_faults", &metadata_faults, py::arg("workspace") = py::none(),
            py::arg("stream") = py::none(),
            "What was wrong with the offsets and lengths of this plan's last execute with that "
            "workspace (None: the one kept for this thread), as one sentence naming tensor, index, "
            "what was got and what was expected: the first fault by batch. None when all was well, "
            "and of engines on host memory, whose execute raises instead. Waits for the stream, "
            "which execute does not. Raises InvalidValueError where the workspace has been used by "
            "another plan since, NotSupportedError for a provider that cannot tell.")
        .def(
            "serialize",
            [](const ExecutionPlan& plan) { return to_bytes(plan.serialize_with_graph()); },
            "The plan and its graph as bytes. Raises NotSupportedError for an engine that cannot "
            "save its plans.")
        .def(
            "serialize_bare", [](const ExecutionPlan& plan) { return to_bytes(plan.serialize()); },
            "The plan alone, as hipDNN saves it: its tensors are known by uid only.")
        .def_static(
            "deserialize",
            [](const py::bytes& data, hipdnnHandle* handle) {
                return std::const_pointer_cast<ExecutionPlan>(ExecutionPlan::deserialize(
                    to_span(data), handle ? *handle : hipdnnHandle::of_thread()));
            },
            py::arg("data"), py::arg("handle") = py::none(),
            "A plan from bytes of serialize, or from a bare plan. Raises NotSupportedError with "
            "the "
            "reason for another engine version, architecture or device.");

    m.def("engines", &engine_rows,
          "Every engine found, and every plugin file that could not be loaded.");
    m.def(
        "add_plugin_path",
        [](const std::string& path) { PluginRegistry::instance().add_path(path); },
        py::arg("path"));
    m.def("plugin_search_paths", [] { return PluginRegistry::instance().search_paths(); });
    m.def("describe_blob", &describe_blob, py::arg("data"),
          "JSON of a serialized graph, plan or container: kind, graph, plan, warnings.");
}

}  // namespace raggeddnn::python
