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
#include "raggeddnn/testing/fp_environment.hpp"

namespace raggeddnn::testing {

namespace {

using schema::TensorView;

constexpr const char* HARNESS = "[harness] ";
constexpr double FACTOR = 2;        // times the movement of the reference
constexpr double ROW_EPSILONS = 4;  // of the output's data type
constexpr size_t MOST_GUARD_ELEMENTS = size_t{1} << 32;
constexpr size_t MOST_THREADS = 1024;

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

// The offsets supplied for a ragged tensor, in the form that the data SDK takes.
std::shared_ptr<ITensor> packed_aux(const TensorView& aux, const PreSuppliedInputs& supplied) {
    const std::shared_ptr<ITensor>& given = supplied.at(aux.uid());
    const bool is_taken = given->is_packed() && given->dims().size() == 4;
    return is_taken ? given : plugin::make_aux(aux, given->raw_host_data());
}

// Of the batches of a ragged tensor; nothing for a dense one.
std::optional<std::vector<int64_t>> row_offsets_of(const ITensor& tensor) {
    const auto ragged = tensor.ragged_iteration_info();
    return ragged ? std::optional(ragged->row_offsets) : std::nullopt;
}

}  // namespace

IntegrationGraphVerificationHarness::IntegrationGraphVerificationHarness(
    std::span<const uint8_t> graph, PreSuppliedInputs pre_supplied_inputs, HarnessOptions options)
    : blob_(std::make_shared<const schema::GraphBlob>(schema::GraphBlob::read(graph))),
      graph_(blob_->bytes().data(), blob_->bytes().size()),
      options_(std::move(options)) {
    check_options();
    find_outputs();
    inputs_ = set_up(std::move(pre_supplied_inputs), std::move(options_.scalars));
}

void IntegrationGraphVerificationHarness::change_inputs(PreSuppliedInputs pre_supplied_inputs,
                                                        HostScalars scalars) {
    const std::lock_guard lock(mutex_);
    Inputs next = set_up(std::move(pre_supplied_inputs), std::move(scalars));
    previous_ = std::exchange(inputs_, std::move(next));
}

GraphTensorBundle IntegrationGraphVerificationHarness::engine_bundle() const {
    const std::lock_guard lock(mutex_);
    return inputs_.engine;
}

GraphTensorBundle IntegrationGraphVerificationHarness::reference_bundle() const {
    const std::lock_guard lock(mutex_);
    return inputs_.reference;
}

void IntegrationGraphVerificationHarness::check_options() const {
    for (const auto& [what, name] : {std::pair("engine", &options_.engine),
                                     std::pair("reference_engine", &options_.reference_engine)}) {
        if (name->empty()) invalid(HARNESS, what, " got '', expected the name of an engine");
    }
    if (options_.guard_elements > MOST_GUARD_ELEMENTS) {
        invalid(HARNESS, "guard_elements got ", options_.guard_elements, ", expected at most ",
                MOST_GUARD_ELEMENTS);
    }
    if (options_.device == "cpu") return;
    if (const std::string known = DeviceMemoryApi::get().device(); options_.device != known) {
        invalid(HARNESS, "device got '", options_.device, "', expected 'cpu' or '", known,
                "', whose runtime is here");
    }
}

bool IntegrationGraphVerificationHarness::is_output(int64_t uid) const {
    return std::find(output_uids_.begin(), output_uids_.end(), uid) != output_uids_.end();
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

void IntegrationGraphVerificationHarness::check_supplied(const PreSuppliedInputs& supplied) const {
    for (const auto& [uid, tensor] : supplied) {
        const auto attribute = graph_.find(uid);
        if (!attribute)
            invalid(HARNESS, "uid ", uid, " was supplied, but is no tensor of the graph");
        if (!tensor) invalid(HARNESS, attribute->label(), " was supplied as a null pointer");
        if (!is_in_memory(*attribute)) {
            invalid(HARNESS, attribute->label(), " was supplied, but is ",
                    attribute->is_virtual() ? "virtual" : "a scalar",
                    ", expected an input in memory");
        }
        if (is_output(uid)) {
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
        if (aux_uid && !supplied.count(*aux_uid)) {
            invalid(HARNESS, graph_.tensor(*aux_uid).label(), ", the ragged offset of ",
                    tensor.label(), ", was not supplied; random values are no offsets");
        }
    }
    for (const auto& entry : supplied) check_fits(graph_.tensor(entry.first), supplied);
}

// Its memory is taken as what the graph states.
void IntegrationGraphVerificationHarness::check_fits(const TensorView& attribute,
                                                     const PreSuppliedInputs& supplied) const {
    const ITensor& tensor = *supplied.at(attribute.uid());
    std::vector<int64_t> dims = attribute.dims();
    std::vector<int64_t> strides = attribute.strides();
    const auto rank = std::max(dims.size(), tensor.dims().size());
    std::vector<int64_t> got_dims = tensor.dims();
    std::vector<int64_t> got_strides = tensor.strides();
    for (auto* numbers : {&dims, &strides, &got_dims, &got_strides}) {
        numbers->resize(rank, 1);  // the data SDK's offsets have rank 4, the graph's perhaps 1
    }
    bool is_same = dims == got_dims;
    for (size_t axis = 0; axis < rank; ++axis) {
        is_same = is_same && (dims[axis] == 1 || strides[axis] == got_strides[axis]);
    }
    if (!is_same) {
        invalid(HARNESS, attribute.label(), " was supplied with dims ", to_text(tensor.dims()),
                " and strides ", to_text(tensor.strides()), ", expected ",
                to_text(attribute.dims()), " and ", to_text(attribute.strides()));
    }
    std::optional<std::vector<int64_t>> expected;
    if (const auto aux_uid = attribute.ragged_offset_uid()) {
        const auto aux = packed_aux(graph_.tensor(*aux_uid), supplied);
        expected = row_offsets_of(*plugin::create_tensor_from_attribute(attribute, aux));
    }
    const auto got = row_offsets_of(tensor);
    if (got == expected) return;
    const auto text = [](const auto& offsets) {
        return offsets ? "ragged with offsets " + to_text(*offsets) : std::string("dense");
    };
    invalid(HARNESS, attribute.label(), " was supplied ", text(got), ", expected ", text(expected));
}

void IntegrationGraphVerificationHarness::check_scalars(const HostScalars& scalars) const {
    for (const auto& [uid, value] : scalars) {
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
            !scalars.count(tensor.uid())) {
            invalid(HARNESS, tensor.label(),
                    " is a runtime scalar without a default, expected a value for it");
        }
    }
}

void IntegrationGraphVerificationHarness::check_tolerances(const Tolerances& tolerances) const {
    for (const auto& [uid, tolerance] : tolerances) {
        if (!is_output(uid)) {
            invalid(HARNESS, "uid ", uid, " got a tolerance, but is no output of the graph");
        }
        const auto check = [&](const char* what, double value) {
            if (value >= 0) return;
            invalid(HARNESS, "the tolerance of ", graph_.tensor(uid).label(), ": ", what, " got ",
                    value, ", expected at least 0");
        };
        check("absolute", tolerance.absolute);
        check("relative", tolerance.relative);
        check("of_row", tolerance.of_row);
        for (const double limit : tolerance.limits) check("limits", limit);
    }
}

IntegrationGraphVerificationHarness::Inputs IntegrationGraphVerificationHarness::set_up(
    PreSuppliedInputs supplied, HostScalars scalars) const {
    check_supplied(supplied);
    check_scalars(scalars);
    Inputs made;
    made.reference = allocate(supplied);
    made.engine = allocate(supplied);
    add_guarded_outputs(made.engine, made.reference);
    reset_outputs(made.reference);
    made.supplied = std::move(supplied);
    made.scalars = std::move(scalars);
    return made;
}

GraphTensorBundle IntegrationGraphVerificationHarness::allocate(
    const PreSuppliedInputs& supplied) const {
    GraphTensorBundle bundle;
    for (const TensorView& tensor : graph_.tensors()) {
        if (!is_in_memory(tensor)) continue;
        const int64_t uid = tensor.uid();
        if (const auto found = supplied.find(uid); found != supplied.end()) {
            bundle.add(uid, found->second);
            continue;
        }
        if (const auto aux_uid = tensor.ragged_offset_uid()) {
            const auto aux = packed_aux(graph_.tensor(*aux_uid), supplied);
            bundle.add(uid, plugin::create_tensor_from_attribute(tensor, aux));
        } else {
            bundle.add(uid, plugin::create_tensor_from_attribute(tensor));
        }
        bundle.randomize_tensor(uid, options_.seed, options_.low, options_.high);
    }
    return bundle;
}

void IntegrationGraphVerificationHarness::add_guarded_outputs(
    GraphTensorBundle& bundle, const GraphTensorBundle& model) const {
    for (const int64_t uid : output_uids_) {
        bundle.add(uid, make_guarded_tensor(*model.at(uid), options_.guard_elements));
    }
    reset_outputs(bundle);
}

// Dense outputs get sentinels as ragged ones do: padding of a batch with lengths is left unwritten
// as well.
void IntegrationGraphVerificationHarness::reset_outputs(const GraphTensorBundle& bundle) const {
    for (const int64_t uid : output_uids_) bundle.memory_of(uid).memory->fill_with_sentinel_value();
}

void IntegrationGraphVerificationHarness::build() {
    if (engine_plan_) return;
    const FpEnvironment environment;
    const auto plan = ExecutionPlan::build(blob_, hipdnnHandle::of_thread(options_.device),
                                           {options_.engine, options_.knobs});
    built_in_changed_environment_ = environment.restore();
    reference_plan_ =
        ExecutionPlan::build(blob_, hipdnnHandle::of_thread(), {options_.reference_engine, {}});
    engine_plan_ = plan;
}

std::map<int64_t, uint64_t> IntegrationGraphVerificationHarness::input_sums() const {
    std::map<int64_t, uint64_t> sums;
    for (const auto& [uid, tensor] : inputs_.engine.tensors()) {
        if (is_output(uid)) continue;
        const ITensor& input = *tensor;
        const auto* bytes = static_cast<const char*>(input.raw_host_data());
        sums[uid] = fnv1a(std::span(bytes, input.element_space() * input.element_size()));
    }
    return sums;
}

GraphTensorBundle IntegrationGraphVerificationHarness::with_moved_inputs() const {
    GraphTensorBundle moved;
    for (const auto& [uid, tensor] : inputs_.reference.tensors()) {
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
    const ITensor& reference = *inputs_.reference.at(uid);
    const SentinelReport report = all_close_skip_sentinel(reference, *moved.at(uid), Tolerance{});
    const double movement = std::isfinite(report.worst_error) ? report.worst_error : 0;
    return {.absolute = FACTOR * movement, .of_row = ROW_EPSILONS * epsilon(reference.data_type())};
}

OutputReport IntegrationGraphVerificationHarness::compare(int64_t uid, const Tolerance& tolerance,
                                                          const GraphTensorBundle& bundle) const {
    OutputReport report;
    report.uid = uid;
    report.name = graph_.tensor(uid).name();
    const GuardedTensor got = bundle.memory_of(uid);
    find_overwritten(got, report);  // fetches what a device wrote
    report.comparison = all_close_skip_sentinel(*inputs_.reference.at(uid), *got.tensor, tolerance);
    return report;
}

VerificationReport IntegrationGraphVerificationHarness::verify_graph(const Tolerances& tolerances) {
    const std::lock_guard lock(mutex_);
    return verify(tolerances, {&inputs_.engine});
}

VerificationReport IntegrationGraphVerificationHarness::verify_concurrently(
    size_t threads, const Tolerances& tolerances) {
    if (threads < 1 || threads > MOST_THREADS) {
        invalid(HARNESS, "threads got ", threads, ", expected 1 to ", MOST_THREADS);
    }
    const std::lock_guard lock(mutex_);
    std::vector<GraphTensorBundle> own(threads, inputs_.engine);
    Bundles bundles;
    for (GraphTensorBundle& bundle : own) {
        add_guarded_outputs(bundle, inputs_.reference);
        bundles.push_back(&bundle);
    }
    return verify(tolerances, bundles);
}

VerificationReport IntegrationGraphVerificationHarness::verify(const Tolerances& tolerances,
                                                               const Bundles& bundles) {
    check_tolerances(tolerances);
    build();
    // The reference first: an engine that writes to inputs which both share cannot mislead it.
    run_reference(inputs_.reference);
    const auto before = input_sums();
    VerificationReport report;
    report.engine = engine_plan_->engine_name();
    run_engine(bundles, report);
    report.changed_fp_environment |= built_in_changed_environment_;
    for (const auto& [uid, sum] : input_sums()) {
        if (before.at(uid) != sum) report.changed_inputs.push_back(graph_.tensor(uid).label());
    }
    std::optional<GraphTensorBundle> moved;
    for (const int64_t uid : output_uids_) {
        const auto stated = tolerances.find(uid);
        if (stated == tolerances.end() && !moved) {
            moved = with_moved_inputs();
            run_reference(*moved);
        }
        const Tolerance tolerance =
            stated == tolerances.end() ? own_tolerance(uid, *moved) : stated->second;
        OutputReport found = compare(uid, tolerance, *bundles.front());
        for (size_t i = 1; i < bundles.size() && found.passed(); ++i) {
            found = compare(uid, tolerance, *bundles[i]);
        }
        report.outputs.push_back(std::move(found));
    }
    return report;
}

}  // namespace raggeddnn::testing
