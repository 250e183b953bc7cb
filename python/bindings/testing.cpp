// The verification harness for raggeddnn.testing.
#include <pybind11/numpy.h>

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "bindings.hpp"
#include "raggeddnn/schema/graph_view.hpp"
#include "raggeddnn/testing/fp_environment.hpp"
#include "raggeddnn/testing/harness.hpp"
#include "tensor_data.hpp"

namespace raggeddnn::python {

namespace {

using testing::HarnessOptions;
using testing::IntegrationGraphVerificationHarness;

using Supplied = std::unordered_map<int64_t, const TensorData*>;
using LimitArray = py::array_t<double, py::array::c_style | py::array::forcecast>;

// absolute, relative, of_row, and limits or None.
using ToleranceTuple = std::tuple<double, double, double, std::optional<LimitArray>>;

struct Harness {
    std::unique_ptr<IntegrationGraphVerificationHarness> harness;
    py::bytes graph;
    std::vector<py::object> keep_alive;  // whose memory supplied tensors borrow
};

testing::HostScalars scalars_from(const py::bytes& graph, const py::dict& scalars) {
    const auto bytes = to_span(graph);
    const schema::GraphView view(bytes.data(), bytes.size());
    testing::HostScalars made;
    for (const auto& [key, value] : scalars) {
        const auto uid = key.cast<int64_t>();
        const auto tensor = view.find(uid);
        made[uid] =
            scalar_from_python(value, tensor ? tensor->data_type() : DataType::NOT_SET,
                               "[harness] " + (tensor ? tensor->label() : message("uid ", uid)));
    }
    return made;
}

testing::PreSuppliedInputs inputs_from(const Supplied& supplied,
                                       std::vector<py::object>& keep_alive) {
    testing::PreSuppliedInputs inputs;
    for (const auto& [uid, data] : supplied) {
        inputs[uid] = data ? data->tensor : nullptr;
        if (!data) continue;
        data->on_host();
        keep_alive.insert(keep_alive.end(), data->keep_alive.begin(), data->keep_alive.end());
    }
    return inputs;
}

Harness make_harness(const py::bytes& graph, const Supplied& supplied, const py::dict& scalars,
                     const std::optional<py::dict>& knobs, HarnessOptions options) {
    options.scalars = scalars_from(graph, scalars);
    options.knobs = knobs_from(knobs);
    Harness made;
    made.graph = graph;
    auto inputs = inputs_from(supplied, made.keep_alive);
    made.harness = std::make_unique<IntegrationGraphVerificationHarness>(
        to_span(graph), std::move(inputs), std::move(options));
    return made;
}

void change_inputs(Harness& self, const Supplied& supplied, const py::dict& scalars) {
    auto values = scalars_from(self.graph, scalars);
    auto inputs = inputs_from(supplied, self.keep_alive);
    const py::gil_scoped_release release;  // another thread may hold the harness's lock
    self.harness->change_inputs(std::move(inputs), std::move(values));
}

py::dict output_to_dict(const testing::OutputReport& output) {
    py::dict made;
    made["uid"] = output.uid;
    made["name"] = to_text(output.name);
    made["passed"] = output.passed();
    made["comparison"] = to_dict(output.comparison);
    made["overwritten"] = output.overwritten;
    made["first_overwritten"] = output.first_overwritten;
    made["overwritten_value"] = output.overwritten_value;
    made["text"] = to_text(output.to_string());
    return made;
}

py::list to_list(const std::vector<std::string>& texts) {
    py::list made;
    for (const std::string& text : texts) made.append(to_text(text));
    return made;
}

// In one thread, or in several at once.
py::dict verify(const Harness& self, const std::unordered_map<int64_t, ToleranceTuple>& tolerances,
                std::optional<size_t> threads) {
    testing::Tolerances by_uid;
    for (const auto& [uid, given] : tolerances) {
        const auto& [absolute, relative, of_row, limits] = given;
        Tolerance& tolerance = by_uid[uid];
        tolerance = {.absolute = absolute, .relative = relative, .of_row = of_row};
        if (limits) tolerance.limits = {limits->data(), static_cast<size_t>(limits->size())};
    }
    testing::VerificationReport report;
    {
        py::gil_scoped_release release;
        report = threads ? self.harness->verify_concurrently(*threads, by_uid)
                         : self.harness->verify_graph(by_uid);
    }
    py::list outputs;
    for (const testing::OutputReport& output : report.outputs)
        outputs.append(output_to_dict(output));
    py::dict made;
    made["engine"] = to_text(report.engine);
    made["passed"] = report.passed();
    made["outputs"] = outputs;
    made["changed_inputs"] = to_list(report.changed_inputs);
    made["changed_fp_environment"] = report.changed_fp_environment;
    made["overwritten_workspace"] = report.overwritten_workspace;
    made["faults"] = to_list(report.faults());
    made["text"] = to_text(report.to_string());
    return made;
}

// `bundle`: engine_bundle or reference_bundle, which wait while another thread runs the harness.
std::shared_ptr<TensorData> tensor_of(
    const py::object& self, int64_t uid,
    testing::GraphTensorBundle (IntegrationGraphVerificationHarness::*bundle)() const) {
    const auto& harness = *self.cast<const Harness&>().harness;
    std::shared_ptr<ITensor> tensor;
    {
        py::gil_scoped_release release;
        tensor = (harness.*bundle)().at(uid);
    }
    return std::make_shared<TensorData>(TensorData{std::move(tensor), {self}});
}

}  // namespace

void bind_testing(py::module_& m) {
    py::class_<Harness>(m, "Harness", "What raggeddnn.testing's harness holds.")
        .def(py::init([](const py::bytes& graph, const Supplied& supplied, const py::dict& scalars,
                         const std::optional<py::dict>& knobs, std::string engine,
                         std::string reference_engine, std::string device, uint64_t seed,
                         std::array<double, 2> range, size_t guard_elements) {
                 HarnessOptions options;
                 options.engine = std::move(engine);
                 options.reference_engine = std::move(reference_engine);
                 options.device = std::move(device);
                 options.seed = seed;
                 options.low = range[0];
                 options.high = range[1];
                 options.guard_elements = guard_elements;
                 return make_harness(graph, supplied, scalars, knobs, std::move(options));
             }),
             py::kw_only(), py::arg("graph"), py::arg("supplied"), py::arg("scalars"),
             py::arg("knobs"), py::arg("engine"), py::arg("reference_engine"), py::arg("device"),
             py::arg("seed"), py::arg("range"), py::arg("guard_elements"))
        .def("verify", &verify, py::arg("tolerances"), py::arg("threads"))
        .def("change_inputs", &change_inputs, py::arg("supplied"), py::arg("scalars"))
        .def_property_readonly("output_uids",
                               [](const Harness& self) { return self.harness->output_uids(); })
        .def(
            "engine_tensor",
            [](const py::object& self, int64_t uid) {
                return tensor_of(self, uid, &IntegrationGraphVerificationHarness::engine_bundle);
            },
            py::arg("uid"))
        .def(
            "reference_tensor",
            [](const py::object& self, int64_t uid) {
                return tensor_of(self, uid, &IntegrationGraphVerificationHarness::reference_bundle);
            },
            py::arg("uid"));
    py::class_<testing::FpEnvironment> environment(
        m, "FpEnvironment", "The floating-point environment of this thread as it was when made.");
    environment.attr("LEFT_CHANGED") = testing::FpEnvironment::LEFT_CHANGED;
    environment.def(py::init<>())
        .def("restore", &testing::FpEnvironment::restore, "Brings it back; was it another one?");
}

}  // namespace raggeddnn::python
