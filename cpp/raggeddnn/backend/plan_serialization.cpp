// Plans as bytes. The backend writes the envelope; what the engine compiled is its own payload,
// which it versions and, on the way back, accepts or refuses.
#include <algorithm>

#include "raggeddnn/backend/execution_plan.hpp"
#include "raggeddnn/base/error.hpp"
#include "raggeddnn/schema/blob.hpp"

namespace raggeddnn {

namespace {

// The meaning of the envelope's fields, not of the payload.
constexpr uint32_t PLAN_SERIALIZATION_VERSION = 1;

// A payload that the plugin owns, given back on the way out.
class Payload {
public:
    Payload(const backend::PluginLibrary& library, hipdnnEnginePluginHandle_t handle,
            int64_t engine_id, hipdnnEnginePluginExecutionContext_t context)
        : library_(library), handle_(handle) {
        library.check(library.call().serialize_context(handle, engine_id, context, &data_),
                      "hipdnnEnginePluginSerializeExecutionContextWithEngineId");
    }
    ~Payload() { library_.call().destroy_serialized(handle_, &data_); }
    Payload(const Payload&) = delete;
    Payload& operator=(const Payload&) = delete;

    std::vector<uint8_t> bytes() const {
        const auto* first = static_cast<const uint8_t*>(data_.ptr);
        return {first, first + data_.size};
    }

private:
    const backend::PluginLibrary& library_;
    hipdnnEnginePluginHandle_t handle_;
    hipdnnPluginConstData_t data_{};
};

backend::LoadedEngine engine_with_id(int64_t id) {
    for (const backend::LoadedEngine& engine : backend::PluginRegistry::instance().engines()) {
        if (engine.info.id == id) return engine;
    }
    fail(ErrorCode::NOT_SUPPORTED, "plan: its engine has id ", id,
         ", expected one of the loaded engines");
}

}  // namespace

std::vector<uint8_t> ExecutionPlan::serialize() const {
    const backend::PluginLibrary& library = *engine_.library;
    if (!library.call().serialize_context) {
        fail(ErrorCode::NOT_SUPPORTED, "engine ", engine_name(), " (plugin ", library.name(),
             ") cannot save its plans");
    }
    schema::SerializedExecutionPlanT saved;
    saved.version = PLAN_SERIALIZATION_VERSION;
    saved.engine_id = engine_.info.id;
    saved.workspace_size = static_cast<int64_t>(workspace_size_);
    saved.is_override_shape_enabled = is_override_shape_enabled_;
    for (const auto& [uid, tensor] : tensors_) {
        if (!tensor.is_virtual) saved.tensor_uids.push_back(uid);
    }
    std::sort(saved.tensor_uids.begin(), saved.tensor_uids.end());
    for (const int64_t uid : saved.tensor_uids) {
        // Host scalars ask for none.
        const PlanTensor& tensor = tensors_.at(uid);
        const bool is_scalar = tensor.has_value || tensor.is_runtime_pass_by_value;
        saved.tensor_alignments.push_back(is_scalar ? 1 : tensor.alignment);
    }
    saved.plugin_payload =
        Payload(library, plugin_handle_->get(), engine_.info.id, context_).bytes();
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(schema::CreateSerializedExecutionPlan(builder, &saved));
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

std::vector<uint8_t> ExecutionPlan::serialize_with_graph() const {
    if (!graph_) {
        fail(ErrorCode::NOT_SUPPORTED,
             "plan: it was deserialized without its graph, expected a plan "
             "that has one");
    }
    return schema::write_container(graph_->bytes(), serialize());
}

std::shared_ptr<const ExecutionPlan> ExecutionPlan::deserialize(std::span<const uint8_t> bytes,
                                                                hipdnnHandle& handle) {
    std::shared_ptr<ExecutionPlan> plan(new ExecutionPlan);
    std::vector<uint8_t> plan_bytes(bytes.begin(), bytes.end());
    const schema::BlobKind kind = schema::identify(bytes);
    if (kind == schema::BlobKind::GRAPH_AND_PLAN) {
        schema::ContainerBlob container = schema::read_container(bytes);
        if (!container.plan) invalid("container: holds no plan, expected one");
        plan_bytes = std::move(*container.plan);
        // A graph that nothing binds to the plan says nothing of what the engine will do: checks by
        // it would be worth less than none.
        if (container.graph && container.is_checked) {
            plan->graph_ = std::make_shared<const schema::GraphBlob>(
                schema::GraphBlob::read(*container.graph));
        }
    } else if (kind != schema::BlobKind::EXECUTION_PLAN) {
        invalid("plan: the bytes are a ", schema::to_string(kind), ", expected an execution plan");
    }
    const schema::PlanBlob blob = schema::PlanBlob::read(plan_bytes);
    const schema::SerializedExecutionPlan& saved = blob.plan();
    if (saved.version() != PLAN_SERIALIZATION_VERSION) {
        fail(ErrorCode::NOT_SUPPORTED, "plan: its version is ", saved.version(), ", expected ",
             PLAN_SERIALIZATION_VERSION);
    }
    plan->engine_ = engine_with_id(saved.engine_id());
    const backend::EngineInfo& engine = plan->engine_.info;
    if (!engine.device.empty() && engine.device != handle.device()) {
        fail(ErrorCode::NOT_SUPPORTED, "plan: engine ", engine.name, " runs on ", engine.device,
             ", the handle's device is ", handle.device());
    }
    plan->device_ = handle.device();
    if (plan->graph_) {
        plan->read_tensors();
    } else {
        plan->read_bare_tensors(saved);
    }
    plan->restore(saved, handle);
    return plan;
}

void ExecutionPlan::read_bare_tensors(const schema::SerializedExecutionPlan& saved) {
    is_override_shape_enabled_ = saved.is_override_shape_enabled();
    if (!saved.tensor_uids()) return;
    for (flatbuffers::uoffset_t i = 0; i < saved.tensor_uids()->size(); ++i) {
        PlanTensor tensor;
        tensor.uid = saved.tensor_uids()->Get(i);
        tensor.label = message("tensor with uid ", tensor.uid);
        tensor.is_bare = true;
        tensor.alignment = saved.tensor_alignments() && saved.tensor_alignments()->size() > i
                               ? saved.tensor_alignments()->Get(i)
                               : 1;
        tensors_.emplace(tensor.uid, std::move(tensor));
    }
}

void ExecutionPlan::restore(const schema::SerializedExecutionPlan& saved, hipdnnHandle& handle) {
    const backend::PluginLibrary& library = *engine_.library;
    if (!library.call().create_from_serialized) {
        fail(ErrorCode::NOT_SUPPORTED, "engine ", engine_name(), " (plugin ", library.name(),
             ") cannot load saved plans");
    }
    plugin_handle_ = handle.plugin_handle(engine_.library);
    hipdnnPluginConstData_t payload{};
    if (saved.plugin_payload()) {
        payload = {saved.plugin_payload()->Data(), saved.plugin_payload()->size()};
    }
    library.check(library.call().create_from_serialized(plugin_handle_->get(), &payload, &context_),
                  "hipdnnEnginePluginCreateExecutionContextFromSerialized");
    library.check(
        library.call().context_workspace_size(plugin_handle_->get(), context_, &workspace_size_),
        "hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext");
}

}  // namespace raggeddnn
