#include "raggeddnn/backend/execution_plan.hpp"

#include <algorithm>
#include <cstring>

#include "raggeddnn/backend/workspace.hpp"
#include "raggeddnn/base/error.hpp"
#include "raggeddnn/base/log.hpp"
#include "raggeddnn/schema/graph_view.hpp"
#include "raggeddnn/schema/uids.hpp"

namespace raggeddnn {

namespace {

std::vector<uint8_t> engine_config(int64_t engine_id,
                                   const std::map<std::string, KnobValue>& knobs) {
    schema::EngineConfigT config;
    config.engine_id = engine_id;
    for (const auto& [name, value] : knobs) {
        auto knob = std::make_unique<schema::KnobSettingT>();
        knob->knob_id = name;
        if (const auto* integer = std::get_if<int64_t>(&value)) {
            schema::IntValueT v;
            v.value = *integer;
            knob->value.Set(std::move(v));
        } else if (const auto* real = std::get_if<double>(&value)) {
            schema::FloatValueT v;
            v.value = *real;
            knob->value.Set(std::move(v));
        } else {
            schema::StringValueT v;
            v.value = std::get<std::string>(value);
            knob->value.Set(std::move(v));
        }
        config.knobs.push_back(std::move(knob));
    }
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(schema::CreateEngineConfig(builder, &config));
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

const Binding* find_binding(std::span<const Binding> pack, int64_t uid) {
    for (const Binding& b : pack) {
        if (b.uid == uid) return &b;
    }
    return nullptr;
}

// Elements from the base to the end of the last one addressed by dims and strides from `first_axis`
// on; the frontend has refused products beyond 2^63.
int64_t span_of(const PlanTensor& tensor, size_t first_axis) {
    int64_t last = 0;
    for (size_t axis = first_axis; axis < tensor.dims.size(); ++axis) {
        if (tensor.dims[axis] == 0) return 0;
        int64_t step = 0;
        if (__builtin_mul_overflow(tensor.dims[axis] - 1, tensor.strides[axis], &step) ||
            __builtin_add_overflow(last, step, &last)) {
            invalid(tensor.label, ": its dims and strides reach beyond 2^63 elements");
        }
    }
    return last + 1;
}

int64_t read_integer(DataType type, const void* base, int64_t index) {
    if (type == DataType::INT32) {
        int32_t value = 0;
        std::memcpy(&value, static_cast<const char*>(base) + index * 4, 4);
        return value;
    }
    int64_t value = 0;
    std::memcpy(&value, static_cast<const char*>(base) + index * 8, 8);
    return value;
}

}  // namespace

std::shared_ptr<const ExecutionPlan> ExecutionPlan::build(
    std::shared_ptr<const schema::GraphBlob> graph, hipdnnHandle& handle,
    const BuildOptions& options) {
    std::shared_ptr<const schema::GraphBlob> engine_graph = graph;
    if (graph->graph().is_runtime_default_override_enabled()) {
        engine_graph =
            std::make_shared<const schema::GraphBlob>(backend::without_runtime_defaults(*graph));
    }
    const std::vector<backend::Candidate> candidates = backend::examine(*engine_graph, handle);
    const backend::Candidate& chosen =
        backend::choose(candidates, graph->graph(), handle, options.engine);

    std::shared_ptr<ExecutionPlan> plan(new ExecutionPlan);
    plan->graph_ = std::move(graph);
    plan->engine_ = chosen.engine;
    plan->device_ = handle.device();
    plan->read_tensors();
    plan->plugin_handle_ = handle.plugin_handle(chosen.engine.library);
    plan->compile(*engine_graph, options.knobs);
    return plan;
}

void ExecutionPlan::compile(const schema::GraphBlob& engine_graph,
                            const std::map<std::string, KnobValue>& knobs) {
    const backend::PluginLibrary& library = *engine_.library;
    const std::vector<uint8_t> config = engine_config(engine_.info.id, knobs);
    const hipdnnPluginConstData_t config_data{config.data(), config.size()};
    const std::span<const uint8_t> bytes = engine_graph.bytes();
    const hipdnnPluginConstData_t graph_data{bytes.data(), bytes.size()};
    library.check(
        library.call().create_context(plugin_handle_->get(), &config_data, &graph_data, &context_),
        "hipdnnEnginePluginCreateExecutionContext");
    library.check(
        library.call().context_workspace_size(plugin_handle_->get(), context_, &workspace_size_),
        "hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext");
    log(LogLevel::INFO, "plan: ", engine_name(), ", workspace ", workspace_size_, " bytes");
}

ExecutionPlan::~ExecutionPlan() {
    if (context_) engine_.library->call().destroy_context(plugin_handle_->get(), context_);
}

void ExecutionPlan::read_tensors() {
    is_override_shape_enabled_ = graph_->graph().is_override_shape_enabled();
    defaults_ = backend::read_runtime_defaults(graph_->graph());
    const std::span<const uint8_t> bytes = graph_->bytes();
    const schema::GraphView view(bytes.data(), bytes.size());
    schema::check_extents_are_given(view);
    for (const schema::TensorView& t : view.tensors()) {
        PlanTensor tensor;
        tensor.uid = t.uid();
        tensor.label = t.label();
        tensor.data_type = t.data_type();
        tensor.dims = t.dims();
        tensor.strides = t.strides();
        if (tensor.strides.size() != tensor.dims.size()) {
            invalid(tensor.label, " has ", tensor.dims.size(), " dims and ", tensor.strides.size(),
                    " strides, expected as many");
        }
        tensor.alignment = t.alignment();
        tensor.is_virtual = t.is_virtual();
        tensor.has_value = t.has_value();
        tensor.is_runtime_pass_by_value = t.is_runtime_pass_by_value();
        tensor.ragged_offset_uid = t.ragged_offset_uid();
        tensor.ragged_offset_multiplier = t.ragged_offset_multiplier();
        tensors_.emplace(tensor.uid, std::move(tensor));
    }
    for (const auto& [uid, tensor] : tensors_) {
        if (!tensor.ragged_offset_uid) continue;
        const PlanTensor* aux = find(*tensor.ragged_offset_uid);
        if (!aux || aux->dims.empty() || tensor.dims.empty() ||
            aux->dims[0] - 1 != tensor.dims[0]) {
            invalid(tensor.label, " is ragged in ", tensor.dims.empty() ? 0 : tensor.dims[0],
                    " batches, expected an offset more in ",
                    aux ? aux->label : std::string("a tensor of the graph"));
        }
    }
    for (const backend::RuntimeDefault& d : defaults_) tensors_.at(d.uid).has_value = false;
    for (size_t i = 0; i < view.node_count(); ++i) {
        for (const schema::NodeTensorUse& use : schema::tensor_uses(view.node(i))) {
            const auto found = tensors_.find(use.uid);
            if (found != tensors_.end() && use.is_output) found->second.is_output = true;
        }
    }
}

const PlanTensor* ExecutionPlan::find(int64_t uid) const {
    const auto found = tensors_.find(uid);
    return found == tensors_.end() ? nullptr : &found->second;
}

namespace {

// The tensor with the dims and strides of this execute.
PlanTensor overridden(const PlanTensor& tensor, std::span<const ShapeOverride> overrides) {
    PlanTensor result = tensor;
    for (const ShapeOverride& o : overrides) {
        if (o.uid != tensor.uid) continue;
        result.dims = o.dims;
        result.strides = o.strides;
    }
    return result;
}

}  // namespace

void ExecutionPlan::check(std::span<const Binding> pack,
                          std::span<const ShapeOverride> overrides) const {
    for (size_t i = 0; i < pack.size(); ++i) {
        const Binding& binding = pack[i];
        const PlanTensor* tensor = find(binding.uid);
        if (!tensor) {
            invalid("variant pack: uid ", binding.uid, " is no tensor of the plan's graph");
        }
        if (find_binding(pack.first(i), binding.uid)) {
            invalid("variant pack: ", tensor->label, " is given twice, expected once");
        }
        if (tensor->has_value) continue;  // inert, whatever it is
        if (tensor->is_virtual) {
            invalid("variant pack: ", tensor->label,
                    " is virtual, expected only tensors that are not: a virtual tensor has no "
                    "memory of "
                    "the caller's");
        }
        if (tensor->is_runtime_pass_by_value) continue;  // read bytewise: any address does
        const auto address = reinterpret_cast<uintptr_t>(binding.ptr);
        if (tensor->alignment > 1 && address % static_cast<uintptr_t>(tensor->alignment) != 0) {
            invalid("variant pack: ", tensor->label, " is at an address that is ",
                    address % static_cast<uintptr_t>(tensor->alignment),
                    " bytes past a multiple of its alignment, expected a multiple of ",
                    tensor->alignment, " bytes");
        }
        if (tensor->is_output) check_own_memory(*tensor, binding, pack);
        if (binding.extent_bytes < 0 || tensor->is_bare) continue;
        if (overrides.empty()) {
            check_extent(*tensor, binding, pack);
        } else {
            check_extent(overridden(*tensor, overrides), binding, pack);
        }
    }
}

// Memory of an output that is another tensor's, too, has no defined content. Only the same address
// is looked for: buffers may interleave.
void ExecutionPlan::check_own_memory(const PlanTensor& output, const Binding& binding,
                                     std::span<const Binding> pack) const {
    for (const Binding& other : pack) {
        const PlanTensor* tensor = find(other.uid);
        if (other.uid == binding.uid || other.ptr != binding.ptr || binding.extent_bytes == 0 ||
            other.extent_bytes == 0 || !tensor || tensor->has_value ||
            tensor->is_runtime_pass_by_value) {
            continue;
        }
        invalid("variant pack: ", output.label, " is an output and got the same memory as ",
                tensor->label, ", expected its own");
    }
}

void ExecutionPlan::check_extent(const PlanTensor& tensor, const Binding& binding,
                                 std::span<const Binding> pack) const {
    int64_t needed = 0;
    std::string why;
    if (!tensor.ragged_offset_uid) {
        needed = span_of(tensor, 0);
        why = "its dims and strides";
    } else {
        const Binding* aux = find_binding(pack, *tensor.ragged_offset_uid);
        const PlanTensor* aux_tensor = find(*tensor.ragged_offset_uid);
        if (device_ != "cpu" || !aux || !aux->ptr || !aux_tensor || tensor.dims.size() != 4) return;
        const int64_t batches = tensor.dims[0];
        const int64_t bytes = static_cast<int64_t>(bytes_of(aux_tensor->data_type, 1));
        if (aux->extent_bytes >= 0 && aux->extent_bytes / bytes <= batches)
            return;  // its own error
        const int64_t last = read_integer(aux_tensor->data_type, aux->ptr, batches);
        int64_t end = 0;
        if (__builtin_mul_overflow(last, tensor.ragged_offset_multiplier, &end)) {
            invalid("variant pack: ", aux_tensor->label, "[", batches, "] is ", last,
                    ", which times ", tensor.ragged_offset_multiplier, " exceeds 2^63");
        }
        // The last row ends with its last element, not with its stride.
        const int64_t row = tensor.strides[2];
        const PlanTensor one_row{.dims = {tensor.dims[1], tensor.dims[3]},
                                 .strides = {tensor.strides[1], tensor.strides[3]}};
        needed = end <= 0 ? 0 : end - row + span_of(one_row, 0);
        why = message(aux_tensor->label, "[", batches, "], which is ", last);
    }
    const size_t bits = bits_of(tensor.data_type);
    const int64_t held =
        bits == 0 ? 0 : binding.extent_bytes / static_cast<int64_t>((bits + 7) / 8);
    if (needed > held) {
        invalid("variant pack: ", tensor.label, " got memory of ", held,
                " elements, expected at least ", needed, " by ", why);
    }
}

void ExecutionPlan::check_device(const hipdnnHandle& handle, const char* call) const {
    if (handle.device() == device_) return;
    invalid(call, ": the handle's device is ", handle.device(), ", expected ", device_,
            ", for which the plan was built");
}

void* ExecutionPlan::workspace_or_own(void* given, const hipdnnHandle& handle,
                                      const char* call) const {
    if (given || workspace_size_ == 0) return given;
    return backend::own_workspace(device_, workspace_size_, handle.stream(), call);
}

namespace {

// The pack as plugins take it; on the stack while it is small.
class DeviceBuffers {
public:
    explicit DeviceBuffers(size_t capacity) {
        if (capacity <= std::size(few_)) return;
        many_.resize(capacity);
        at_ = many_.data();
    }
    void add(int64_t uid, void* ptr) { at_[count_++] = {uid, ptr}; }
    void add(std::span<const Binding> pack, std::span<const backend::RuntimeDefault> defaults) {
        for (const Binding& b : pack) add(b.uid, b.ptr);
        for (const backend::RuntimeDefault& d : defaults) {
            if (!find_binding(pack, d.uid)) {
                add(d.uid, const_cast<unsigned char*>(d.bytes.data()));
            }
        }
    }
    const hipdnnPluginDeviceBuffer_t* data() const { return at_; }
    uint32_t size() const { return count_; }

private:
    hipdnnPluginDeviceBuffer_t few_[24];
    std::vector<hipdnnPluginDeviceBuffer_t> many_;
    hipdnnPluginDeviceBuffer_t* at_ = few_;
    uint32_t count_ = 0;
};

}  // namespace

void ExecutionPlan::execute(hipdnnHandle& handle, std::span<const Binding> pack, void* workspace,
                            std::span<const ShapeOverride> overrides) const {
    check_device(handle, "execute");
    if (!overrides.empty() && !is_override_shape_enabled_) {
        invalid("execute: got ", overrides.size(),
                " shape overrides, expected none: the graph does "
                "not enable overridable shapes");
    }
    check(pack, overrides);
    if (log_level() >= LogLevel::INFO) log(LogLevel::INFO, "execute: ", describe());
    DeviceBuffers buffers(pack.size() + defaults_.size());
    buffers.add(pack, defaults_);
    const backend::PluginLibrary& library = *engine_.library;
    const hipdnnEnginePluginHandle_t plugin_handle = handle.plugin_handle(engine_.library)->get();
    void* const memory = workspace_or_own(workspace, handle, "execute");
    if (overrides.empty()) {
        library.check(
            library.call().execute(plugin_handle, context_, memory, buffers.data(), buffers.size()),
            "hipdnnEnginePluginExecuteOpGraph");
        return;
    }
    std::vector<int64_t> uids;
    std::vector<uint32_t> lengths;
    std::vector<const int64_t*> shapes;
    std::vector<const int64_t*> strides;
    for (const ShapeOverride& o : overrides) {
        if (o.dims.size() != o.strides.size()) {
            invalid("execute: override of uid ", o.uid, " has ", o.dims.size(), " dims and ",
                    o.strides.size(), " strides, expected as many");
        }
        uids.push_back(o.uid);
        lengths.push_back(static_cast<uint32_t>(o.dims.size()));
        shapes.push_back(o.dims.data());
        strides.push_back(o.strides.data());
    }
    if (!library.call().execute_with_overrides) {
        fail(ErrorCode::NOT_SUPPORTED, "plugin ", library.name(),
             " lacks hipdnnEnginePluginExecuteOpGraphWithOverrides");
    }
    library.check(library.call().execute_with_overrides(
                      plugin_handle, context_, memory, buffers.data(), buffers.size(),
                      static_cast<uint32_t>(overrides.size()), uids.data(), lengths.data(),
                      shapes.data(), strides.data()),
                  "hipdnnEnginePluginExecuteOpGraphWithOverrides");
}

bool ExecutionPlan::clears_outputs() const {
    const backend::PluginLibrary& library = *engine_.library;
    return library.call().execute_and_clear &&
           library.call().execute_and_clear(plugin_handle_->get(), context_, nullptr, nullptr, 0,
                                            nullptr, 0) == HIPDNN_PLUGIN_STATUS_SUCCESS;
}

void ExecutionPlan::execute_and_clear(hipdnnHandle& handle, std::span<const Binding> pack,
                                      void* workspace,
                                      std::span<const raggeddnnClearedOutput_t> outputs) const {
    check_device(handle, "execute_and_clear");
    check(pack, {});
    if (log_level() >= LogLevel::INFO) log(LogLevel::INFO, "execute: ", describe());
    DeviceBuffers buffers(pack.size() + defaults_.size());
    buffers.add(pack, defaults_);
    const backend::PluginLibrary& library = *engine_.library;
    library.check(library.call().execute_and_clear(
                      handle.plugin_handle(engine_.library)->get(), context_,
                      workspace_or_own(workspace, handle, "execute_and_clear"), buffers.data(),
                      buffers.size(), outputs.data(), static_cast<uint32_t>(outputs.size())),
                  "raggeddnnEnginePluginExecuteAndClear");
}

std::optional<std::string> ExecutionPlan::metadata_faults(hipdnnHandle& handle,
                                                          void* workspace) const {
    check_device(handle, "metadata_faults");
    const backend::PluginLibrary& library = *engine_.library;
    if (!library.call().report_faults) {
        fail(ErrorCode::NOT_SUPPORTED, "engine ", engine_name(), " (plugin ", library.name(),
             ") cannot tell what was wrong with offsets and lengths");
    }
    const hipdnnEnginePluginHandle_t plugin_handle = handle.plugin_handle(engine_.library)->get();
    const char* text = nullptr;
    library.check(
        library.call().report_faults(plugin_handle, context_,
                                     workspace_or_own(workspace, handle, "metadata_faults"), &text),
        "raggeddnnEnginePluginReportFaults");
    return text ? std::optional<std::string>(text) : std::nullopt;
}

}  // namespace raggeddnn
