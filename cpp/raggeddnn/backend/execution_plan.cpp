#include "raggeddnn/backend/execution_plan.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/base/log.hpp"
#include "raggeddnn/schema/graph_view.hpp"
#include "raggeddnn/schema/uids.hpp"

namespace raggeddnn {

namespace {

constexpr size_t WORKSPACE_ALIGNMENT = 256;

// Memory of one thread that grows to the largest workspace asked for.
class Workspace {
public:
    ~Workspace() { release(); }
    void* at_least(size_t bytes) {
        if (bytes > size_) {
            release();
            data_ = ::operator new(bytes, std::align_val_t(WORKSPACE_ALIGNMENT));
            size_ = bytes;
        }
        return data_;
    }

private:
    void release() {
        ::operator delete(data_, std::align_val_t(WORKSPACE_ALIGNMENT));
        data_ = nullptr;
        size_ = 0;
    }
    void* data_ = nullptr;
    size_t size_ = 0;
};

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
    if (graph->graph().is_runtime_default_override_enabled()) {
        fail(ErrorCode::NOT_SUPPORTED,
             "the graph sets is_runtime_default_override_enabled, which this version does not run");
    }
    const std::vector<backend::Candidate> candidates = backend::examine(*graph, handle);
    const backend::Candidate& chosen =
        backend::choose(candidates, graph->graph(), handle, options.engine);

    std::shared_ptr<ExecutionPlan> plan(new ExecutionPlan);
    plan->graph_ = std::move(graph);
    plan->engine_ = chosen.engine;
    plan->device_ = handle.device();
    plan->read_tensors();
    const backend::PluginLibrary& library = *chosen.engine.library;
    plan->plugin_handle_ = handle.plugin_handle(chosen.engine.library);
    const std::vector<uint8_t> config = engine_config(chosen.engine.info.id, options.knobs);
    const hipdnnPluginConstData_t config_data{config.data(), config.size()};
    const std::span<const uint8_t> bytes = plan->graph_->bytes();
    const hipdnnPluginConstData_t graph_data{bytes.data(), bytes.size()};
    library.check(library.call().create_context(plan->plugin_handle_->get(), &config_data,
                                                &graph_data, &plan->context_),
                  "hipdnnEnginePluginCreateExecutionContext");
    library.check(library.call().context_workspace_size(plan->plugin_handle_->get(), plan->context_,
                                                        &plan->workspace_size_),
                  "hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext");
    log(LogLevel::INFO, "plan: ", plan->engine_name(), ", workspace ", plan->workspace_size_,
        " bytes");
    return plan;
}

ExecutionPlan::~ExecutionPlan() {
    if (context_) engine_.library->call().destroy_context(plugin_handle_->get(), context_);
}

void ExecutionPlan::read_tensors() {
    const std::span<const uint8_t> bytes = graph_->bytes();
    const schema::GraphView view(bytes.data(), bytes.size());
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

void ExecutionPlan::check(std::span<const Binding> pack) const {
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
        if (binding.extent_bytes >= 0) check_extent(*tensor, binding, pack);
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
        if (aux->extent_bytes >= 0 && aux->extent_bytes < (batches + 1) * bytes)
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

void* ExecutionPlan::workspace_or_own(void* given) const {
    if (given || workspace_size_ == 0) return given;
    if (device_ != "cpu") {
        invalid("execute: workspace is null, expected ", workspace_size_,
                " bytes of device memory");
    }
    static thread_local Workspace own;
    return own.at_least(workspace_size_);
}

void ExecutionPlan::execute(hipdnnHandle& handle, std::span<const Binding> pack,
                            void* workspace) const {
    if (handle.device() != device_) {
        invalid("execute: the handle's device is ", handle.device(), ", expected ", device_,
                ", for which the plan was built");
    }
    check(pack);
    constexpr size_t ON_STACK = 24;
    hipdnnPluginDeviceBuffer_t few[ON_STACK];
    std::vector<hipdnnPluginDeviceBuffer_t> many;
    hipdnnPluginDeviceBuffer_t* buffers = few;
    if (pack.size() > ON_STACK) {
        many.resize(pack.size());
        buffers = many.data();
    }
    for (size_t i = 0; i < pack.size(); ++i) buffers[i] = {pack[i].uid, pack[i].ptr};
    const backend::PluginLibrary& library = *engine_.library;
    const auto& plugin_handle = handle.plugin_handle(engine_.library);
    library.check(
        library.call().execute(plugin_handle->get(), context_, workspace_or_own(workspace), buffers,
                               static_cast<uint32_t>(pack.size())),
        "hipdnnEnginePluginExecuteOpGraph");
}

}  // namespace raggeddnn
