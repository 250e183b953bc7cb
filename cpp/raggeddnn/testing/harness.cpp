#include "raggeddnn/testing/harness.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "raggeddnn/backend/handle.hpp"
#include "raggeddnn/base/fnv1a.hpp"
#include "raggeddnn/plugin/tensor_factory.hpp"
#include "raggeddnn/schema/blob.hpp"
#include "raggeddnn/schema/uids.hpp"

namespace raggeddnn::testing {

namespace {

using schema::TensorView;

constexpr const char* HARNESS = "[harness] ";
constexpr double FACTOR = 2;        // times the movement of the reference
constexpr double ROW_EPSILONS = 4;  // of the output's data type

// The spacing of numbers at 1; 0 for integers.
double epsilon(DataType type) {
    switch (type) {
        case DataType::DOUBLE: return 0x1p-52;
        case DataType::FLOAT: return 0x1p-23;
        case DataType::HALF: return 0x1p-10;
        case DataType::BFLOAT16: return 0x1p-7;
        default: return 0;
    }
}

// In memory of the variant pack, so neither virtual nor a scalar.
bool is_in_memory(const TensorView& tensor) {
    return !tensor.is_virtual() && !tensor.is_by_value();
}

DataType type_of(const TensorAttributes::pass_by_values_t& value) {
    return std::visit(
        []<class T>(const T&) {
            if constexpr (std::is_same_v<T, std::monostate>)
                return DataType::NOT_SET;
            else
                return DATA_TYPE_OF<T>;
        },
        value);
}

void* address_of(TensorAttributes::pass_by_values_t& value) {
    return std::visit([](auto& held) -> void* { return &held; }, value);
}

template <class T>
void move_elements(TensorBase<T>& tensor, uint64_t seed) {
    if constexpr (IS_REAL<T>) {
        RandomValues<double> unit(-1, 1, seed);
        for (void* element : tensor) {
            T& value = *static_cast<T*>(element);
            value = static_cast<T>(static_cast<double>(value) *
                                   (1 + unit.next() * epsilon(DATA_TYPE_OF<T>)));
        }
    }
}

// A copy with memory of its own.
std::shared_ptr<ITensor> copy_of(const TensorView& attribute, const ITensor& tensor) {
    std::shared_ptr<ITensor> copy;
    with_element_type(tensor.data_type(), [&]<class T>(std::type_identity<T>) {
        if (const auto* ragged = dynamic_cast<const RaggedTensorBase<T>*>(&tensor)) {
            copy = plugin::create_tensor_from_attribute(
                attribute, ragged->shared_ragged_offset(),
                tensor.element_space() - tensor.element_count());
        } else {
            copy = std::make_shared<Tensor<T>>(tensor.dims(), tensor.strides());
        }
    });
    std::memcpy(copy->raw_host_data(), tensor.raw_host_data(),
                tensor.element_space() * tensor.element_size());
    return copy;
}

// Elements that no index reaches, yet hold something else than the sentinel.
template <class T>
void find_overwritten(const TensorBase<T>& tensor, OutputReport& report) {
    std::vector<bool> is_reached(tensor.element_space(), false);
    const T* memory = static_cast<const T*>(tensor.raw_host_data());
    for (const void* element : tensor) {
        is_reached[static_cast<size_t>(static_cast<const T*>(element) - memory)] = true;
    }
    for (size_t i = 0; i < is_reached.size(); ++i) {
        if (is_reached[i] || detail::same_bits(memory[i], sentinel_value<T>())) continue;
        if (report.overwritten++ > 0) continue;
        report.first_overwritten = static_cast<int64_t>(i);
        report.overwritten_value = static_cast<double>(memory[i]);
    }
}

}  // namespace

std::string OutputReport::to_string() const {
    const std::string label =
        name.empty() ? message("output with uid ", uid) : message("output '", name, "'");
    if (overwritten == 0) return label + ": " + comparison.to_string();
    return label + message(": ", overwritten,
                           " elements that belong to no row were written, the first at ",
                           first_overwritten, " of its memory got ", overwritten_value,
                           ", expected the sentinel; ", comparison.to_string());
}

bool VerificationReport::passed() const {
    return changed_inputs.empty() &&
           std::all_of(outputs.begin(), outputs.end(),
                       [](const OutputReport& output) { return output.passed(); });
}

std::string VerificationReport::to_string() const {
    std::string text;
    for (const OutputReport& output : outputs) {
        text += (text.empty() ? "" : "\n") + engine + ", " + output.to_string();
    }
    for (const std::string& input : changed_inputs) {
        text += "\n" + engine + ", " + input + " is an input, and was written";
    }
    return text;
}

IntegrationGraphVerificationHarness::IntegrationGraphVerificationHarness(
    std::span<const uint8_t> graph, PreSuppliedInputs pre_supplied_inputs, HarnessOptions options)
    : blob_(std::make_shared<const schema::GraphBlob>(schema::GraphBlob::read(graph))),
      graph_(blob_->bytes().data(), blob_->bytes().size()),
      supplied_(std::move(pre_supplied_inputs)),
      options_(std::move(options)) {
    find_outputs();
    check_supplied();
    check_scalars();
    for (GraphTensorBundle* bundle : {&engine_, &reference_}) {
        allocate(*bundle);
        initialize(*bundle);
    }
}

void IntegrationGraphVerificationHarness::find_outputs() {
    std::unordered_set<int64_t> written;
    for (size_t i = 0; i < graph_.node_count(); ++i) {
        for (const schema::NodeTensorUse& use : schema::tensor_uses(graph_.node(i))) {
            if (use.is_output) written.insert(use.uid);
        }
    }
    for (const TensorView& tensor : graph_.tensors()) {
        if (is_in_memory(tensor) && written.count(tensor.uid())) {
            output_uids_.push_back(tensor.uid());
        }
    }
}

void IntegrationGraphVerificationHarness::check_supplied() const {
    for (const auto& [uid, tensor] : supplied_) {
        const auto attribute = graph_.find(uid);
        if (!attribute)
            invalid(HARNESS, "uid ", uid, " was supplied, but is no tensor of the graph");
        if (!tensor) invalid(HARNESS, attribute->label(), " was supplied as a null pointer");
        if (!is_in_memory(*attribute)) {
            invalid(HARNESS, attribute->label(), " was supplied, but is ",
                    attribute->is_virtual() ? "virtual" : "a scalar",
                    ", expected an input in memory");
        }
        if (std::count(output_uids_.begin(), output_uids_.end(), uid)) {
            invalid(HARNESS, attribute->label(), " was supplied, but is an output of the graph");
        }
        if (tensor->data_type() != attribute->data_type()) {
            invalid(HARNESS, attribute->label(), " was supplied with data type ",
                    to_string(tensor->data_type()), ", expected ",
                    to_string(attribute->data_type()));
        }
    }
    for (const TensorView& tensor : graph_.tensors()) {
        const auto aux_uid = tensor.ragged_offset_uid();
        if (aux_uid && !supplied_.count(*aux_uid)) {
            invalid(HARNESS, graph_.tensor(*aux_uid).label(), ", the ragged offset of ",
                    tensor.label(), ", was not supplied; random values are no offsets");
        }
    }
}

void IntegrationGraphVerificationHarness::check_scalars() const {
    for (const auto& [uid, value] : options_.scalars) {
        const auto attribute = graph_.find(uid);
        if (!attribute)
            invalid(HARNESS, "uid ", uid, " got a value, but is no tensor of the graph");
        if (!attribute->is_runtime_pass_by_value()) {
            invalid(HARNESS, attribute->label(),
                    " got a value, but is no runtime scalar; a constant's is in the graph");
        }
        if (type_of(value) != attribute->data_type()) {
            invalid(HARNESS, attribute->label(), " got a value of type ", to_string(type_of(value)),
                    ", expected ", to_string(attribute->data_type()));
        }
    }
    for (const TensorView& tensor : graph_.tensors()) {
        if (tensor.is_runtime_pass_by_value() && !tensor.has_value() &&
            !options_.scalars.count(tensor.uid())) {
            invalid(HARNESS, tensor.label(),
                    " is a runtime scalar without a default, expected a value for it");
        }
    }
}

void IntegrationGraphVerificationHarness::allocate(GraphTensorBundle& bundle) const {
    for (const TensorView& tensor : graph_.tensors()) {
        if (!is_in_memory(tensor)) continue;
        const int64_t uid = tensor.uid();
        if (const auto found = supplied_.find(uid); found != supplied_.end()) {
            bundle.add(uid, found->second);
        } else if (const auto aux_uid = tensor.ragged_offset_uid()) {
            const bool is_output = std::count(output_uids_.begin(), output_uids_.end(), uid) > 0;
            bundle.add(
                uid, plugin::create_tensor_from_attribute(tensor, supplied_.at(*aux_uid),
                                                          is_output ? options_.guard_elements : 0));
        } else {
            bundle.add(uid, plugin::create_tensor_from_attribute(tensor));
        }
    }
}

// Dense outputs get sentinels as ragged ones do: padding of a batch with lengths is left unwritten
// as well.
void IntegrationGraphVerificationHarness::initialize(const GraphTensorBundle& bundle) const {
    for (const auto& [uid, tensor] : bundle.tensors()) {
        if (!supplied_.count(uid)) {
            bundle.randomize_tensor(uid, options_.seed, options_.low, options_.high);
        }
    }
    reset_outputs(bundle);
}

void IntegrationGraphVerificationHarness::reset_outputs(const GraphTensorBundle& bundle) const {
    for (const int64_t uid : output_uids_) bundle.at(uid)->fill_with_sentinel_value();
}

void IntegrationGraphVerificationHarness::run(const ExecutionPlan& plan,
                                              const GraphTensorBundle& bundle,
                                              hipdnnHandle& handle) {
    reset_outputs(bundle);
    std::vector<Binding> pack;
    for (const auto& [uid, tensor] : bundle.tensors()) {
        void* memory = plan.device() == "cpu" ? tensor->raw_host_data() : tensor->raw_device_data();
        pack.push_back(
            {uid, memory, static_cast<int64_t>(tensor->element_space() * tensor->element_size())});
    }
    for (auto& [uid, value] : options_.scalars) pack.push_back({uid, address_of(value)});
    plan.execute(handle, pack, nullptr);
}

std::map<int64_t, uint64_t> IntegrationGraphVerificationHarness::input_sums() const {
    std::map<int64_t, uint64_t> sums;
    for (const auto& [uid, tensor] : engine_.tensors()) {
        if (std::count(output_uids_.begin(), output_uids_.end(), uid)) continue;
        const ITensor& input = *tensor;
        const auto* bytes = static_cast<const char*>(input.raw_host_data());
        sums[uid] = fnv1a(std::span(bytes, input.element_space() * input.element_size()));
    }
    return sums;
}

GraphTensorBundle IntegrationGraphVerificationHarness::with_moved_inputs() const {
    GraphTensorBundle moved;
    for (const auto& [uid, tensor] : reference_.tensors()) {
        const auto copy = copy_of(graph_.tensor(uid), *tensor);
        moved.add(uid, copy);
        with_element_type(copy->data_type(), [&]<class T>(std::type_identity<T>) {
            move_elements(dynamic_cast<TensorBase<T>&>(*copy),
                          options_.seed ^ static_cast<uint64_t>(uid));
        });
    }
    return moved;
}

Tolerance IntegrationGraphVerificationHarness::own_tolerance(int64_t uid,
                                                             const GraphTensorBundle& moved) const {
    const ITensor& reference = *reference_.at(uid);
    const SentinelReport report = all_close_skip_sentinel(reference, *moved.at(uid), Tolerance{});
    const double movement = std::isfinite(report.worst_error) ? report.worst_error : 0;
    return {.absolute = FACTOR * movement, .of_row = ROW_EPSILONS * epsilon(reference.data_type())};
}

OutputReport IntegrationGraphVerificationHarness::compare(int64_t uid,
                                                          const Tolerance& tolerance) const {
    OutputReport report;
    report.uid = uid;
    report.name = graph_.tensor(uid).name();
    const ITensor& got = *engine_.at(uid);
    report.comparison = all_close_skip_sentinel(*reference_.at(uid), got, tolerance);
    with_element_type(got.data_type(), [&]<class T>(std::type_identity<T>) {
        find_overwritten(dynamic_cast<const TensorBase<T>&>(got), report);
    });
    return report;
}

VerificationReport IntegrationGraphVerificationHarness::verify_graph(const Tolerances& tolerances) {
    for (const auto& [uid, tolerance] : tolerances) {
        if (!std::count(output_uids_.begin(), output_uids_.end(), uid)) {
            invalid(HARNESS, "uid ", uid, " got a tolerance, but is no output of the graph");
        }
    }
    hipdnnHandle& handle = hipdnnHandle::of_thread(options_.device);
    hipdnnHandle& host = hipdnnHandle::of_thread();
    if (!engine_plan_) {
        const auto& name = options_.engine;
        engine_plan_ = ExecutionPlan::build(
            blob_, handle,
            {name.empty() ? std::nullopt : std::optional<std::string>(name), options_.knobs});
        reference_plan_ = ExecutionPlan::build(blob_, host, {options_.reference_engine, {}});
    }
    // The reference first: an engine that writes to inputs which both share cannot mislead it.
    run(*reference_plan_, reference_, host);
    const auto before = input_sums();
    run(*engine_plan_, engine_, handle);
    VerificationReport report;
    report.engine = engine_plan_->engine_name();
    for (const auto& [uid, sum] : input_sums()) {
        if (before.at(uid) != sum) report.changed_inputs.push_back(graph_.tensor(uid).label());
    }
    std::optional<GraphTensorBundle> moved;
    for (const int64_t uid : output_uids_) {
        const auto stated = tolerances.find(uid);
        if (stated == tolerances.end() && !moved) {
            moved = with_moved_inputs();
            run(*reference_plan_, *moved, host);
        }
        report.outputs.push_back(
            compare(uid, stated == tolerances.end() ? own_tolerance(uid, *moved) : stated->second));
    }
    return report;
}

}  // namespace raggeddnn::testing
