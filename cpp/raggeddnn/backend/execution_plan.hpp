// A graph compiled by one engine: run it any number of times, from any number of threads, each time
// with other buffers, offsets, lengths and runtime scalars.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "raggeddnn/backend/handle.hpp"
#include "raggeddnn/backend/runtime_defaults.hpp"
#include "raggeddnn/backend/selection.hpp"
#include "raggeddnn/schema/blob.hpp"
#include "raggeddnn/tensor/data_type.hpp"
#include "raggeddnn/tensor/shape_override.hpp"

namespace raggeddnn {

// One entry of a variant pack.
struct Binding {
    int64_t uid = 0;
    void* ptr = nullptr;        // device memory, or host memory of a runtime scalar
    int64_t extent_bytes = -1;  // bytes from ptr to the end of its memory; negative: unknown
};

// What a plan knows of a tensor, for checks before anything is written.
struct PlanTensor {
    int64_t uid = 0;
    std::string label;
    DataType data_type = DataType::NOT_SET;
    std::vector<int64_t> dims;
    std::vector<int64_t> strides;
    int64_t alignment = 16;
    bool is_virtual = false;
    bool has_value = false;                 // baked: a pack entry is inert
    bool is_runtime_pass_by_value = false;  // a pack entry is a host pointer
    bool is_output = false;
    bool is_bare = false;  // of a plan without its graph: nothing but the uid is known
    std::optional<int64_t> ragged_offset_uid;
    int64_t ragged_offset_multiplier = 1;
};

class RAGGEDDNN_API ExecutionPlan {
public:
    // Chooses an engine and compiles; throws.
    static std::shared_ptr<const ExecutionPlan> build(
        std::shared_ptr<const schema::GraphBlob> graph, hipdnnHandle& handle,
        const BuildOptions& options);
    // The inverse of serialize and of serialize_with_graph. A plan without its graph knows its
    // tensors by uid and alignment only. Throws; a payload that the engine cannot interpret is
    // refused by it.
    static std::shared_ptr<const ExecutionPlan> deserialize(std::span<const uint8_t> bytes,
                                                            hipdnnHandle& handle);
    ~ExecutionPlan();
    ExecutionPlan(const ExecutionPlan&) = delete;
    ExecutionPlan& operator=(const ExecutionPlan&) = delete;

    const std::string& engine_name() const { return engine_.info.name; }
    int64_t engine_id() const { return engine_.info.id; }
    const std::string& device() const { return device_; }
    size_t workspace_size() const { return workspace_size_; }  // bytes
    // Which kernels run, their tile sizes, and why these, as the engine tells it.
    std::string explain_kernel() const;
    // One line: operations with the dims of their tensors, engine, kernels.
    std::string describe() const;
    // Null for a plan that was deserialized without its graph.
    const schema::GraphBlob* graph() const { return graph_.get(); }
    bool is_override_shape_enabled() const { return is_override_shape_enabled_; }
    // A bare plan (execution_plan.fbs); NOT_SUPPORTED for an engine that cannot save its plans.
    std::vector<uint8_t> serialize() const;
    // The graph-and-plan container, which keeps names, types and checks.
    std::vector<uint8_t> serialize_with_graph() const;
    // Null for a uid that is no tensor of the graph.
    const PlanTensor* find(int64_t uid) const;
    const std::unordered_map<int64_t, PlanTensor>& tensors() const { return tensors_; }

    // Checks alignments and extents, then runs. `workspace`: at least workspace_size bytes where
    // the plan's memory is, or null: memory kept for this thread and device. Throws; nothing is
    // written when a check fails.
    void execute(hipdnnHandle& handle, std::span<const Binding> pack, void* workspace,
                 std::span<const ShapeOverride> overrides = {}) const;

    // Whether execute_and_clear() may be called: not every engine clears.
    bool clears_outputs() const;
    // The same as execute, and of these outputs, with how many bytes their memory holds, what no
    // block of a ragged one covers becomes 0, in stats -inf: within the same kernels.
    void execute_and_clear(hipdnnHandle& handle, std::span<const Binding> pack, void* workspace,
                           std::span<const raggeddnnClearedOutput_t> outputs) const;

    // What was wrong with the offsets and lengths of this plan's last execute with that workspace
    // (null: the memory kept for this thread), as one sentence; nothing when all was well. Engines
    // on host memory throw instead when they execute; on a GPU nobody waits to hear of it. Waits
    // for the handle's stream. Throws where the workspace has been used otherwise since, and
    // NOT_SUPPORTED for an engine that cannot tell.
    std::optional<std::string> metadata_faults(hipdnnHandle& handle, void* workspace) const;

private:
    ExecutionPlan() = default;
    void compile(const schema::GraphBlob& engine_graph,
                 const std::map<std::string, KnobValue>& knobs);
    void read_tensors();
    void read_bare_tensors(const schema::SerializedExecutionPlan& saved);
    void restore(const schema::SerializedExecutionPlan& saved, hipdnnHandle& handle);
    void check(std::span<const Binding> pack, std::span<const ShapeOverride> overrides) const;
    void check_own_memory(const PlanTensor& output, const Binding& binding,
                          std::span<const Binding> pack) const;
    void check_extent(const PlanTensor& tensor, const Binding& binding,
                      std::span<const Binding> pack) const;
    void check_device(const hipdnnHandle& handle, const char* call) const;
    void* workspace_or_own(void* given, const hipdnnHandle& handle, const char* call) const;

    std::shared_ptr<const schema::GraphBlob> graph_;
    backend::LoadedEngine engine_;
    std::string device_;
    std::shared_ptr<backend::PluginHandle> plugin_handle_;  // that created the context
    hipdnnEnginePluginExecutionContext_t context_ = nullptr;
    size_t workspace_size_ = 0;
    bool is_override_shape_enabled_ = false;
    std::unordered_map<int64_t, PlanTensor> tensors_;
    // Runtime defaults that a pack entry may override; passed as host pointers where it has none.
    std::vector<backend::RuntimeDefault> defaults_;
};

}  // namespace raggeddnn
