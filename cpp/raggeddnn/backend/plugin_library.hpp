// One engine plugin, loaded: its functions, what it says of itself, and its engines.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "raggeddnn/base/api.hpp"
#include "raggeddnn/plugin/api_version.hpp"
#include "raggeddnn/plugin/engine_plugin_api.h"

namespace raggeddnn::backend {

struct EngineInfo {
    int64_t id = 0;
    std::string name;
    std::string device;  // empty: unstated
    int32_t priority = 0;
    std::vector<std::string> extensions;
};

struct DroppedEngine {
    std::string name;
    std::string reason;
};

// The plugin's exported functions; optional ones are null where it lacks them.
struct PluginFunctions {
    decltype(&hipdnnPluginGetName) get_name = nullptr;
    decltype(&hipdnnPluginGetVersion) get_version = nullptr;
    decltype(&hipdnnPluginGetType) get_type = nullptr;
    decltype(&hipdnnPluginGetLastErrorString) get_last_error = nullptr;
    decltype(&hipdnnPluginSetLoggingCallback) set_logging_callback = nullptr;
    decltype(&hipdnnPluginGetApiVersion) get_api_version = nullptr;  // optional
    decltype(&hipdnnEnginePluginGetAllEngineIds) get_all_engine_ids = nullptr;
    decltype(&hipdnnEnginePluginGetEngineName) get_engine_name = nullptr;  // optional
    decltype(&hipdnnEnginePluginCreate) create = nullptr;
    decltype(&hipdnnEnginePluginDestroy) destroy = nullptr;
    decltype(&hipdnnEnginePluginSetStream) set_stream = nullptr;
    decltype(&hipdnnEnginePluginGetApplicableEngineIds) get_applicable_engine_ids = nullptr;
    decltype(&hipdnnEnginePluginGetEngineDetails) get_engine_details = nullptr;
    decltype(&hipdnnEnginePluginDestroyEngineDetails) destroy_engine_details = nullptr;
    decltype(&hipdnnEnginePluginGetWorkspaceSize) get_workspace_size = nullptr;
    decltype(&hipdnnEnginePluginCreateExecutionContext) create_context = nullptr;
    decltype(&hipdnnEnginePluginDestroyExecutionContext) destroy_context = nullptr;
    decltype(&hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext) context_workspace_size =
        nullptr;
    decltype(&hipdnnEnginePluginExecuteOpGraph) execute = nullptr;
    decltype(&hipdnnEnginePluginExecuteOpGraphWithOverrides) execute_with_overrides =
        nullptr;  // optional
    // Optional, all three or none.
    decltype(&hipdnnEnginePluginSerializeExecutionContextWithEngineId) serialize_context = nullptr;
    decltype(&hipdnnEnginePluginDestroySerializedExecutionContext) destroy_serialized = nullptr;
    decltype(&hipdnnEnginePluginCreateExecutionContextFromSerialized) create_from_serialized =
        nullptr;
    decltype(&raggeddnnEnginePluginGetEngineTraits) get_engine_traits = nullptr;  // optional
    decltype(&raggeddnnEnginePluginWhyUnavailable) why_unavailable = nullptr;     // optional
    decltype(&raggeddnnEnginePluginExplainKernel) explain_kernel = nullptr;       // optional
    decltype(&raggeddnnEnginePluginReportFaults) report_faults = nullptr;         // optional
    decltype(&raggeddnnEnginePluginExecuteAndClear) execute_and_clear = nullptr;  // optional
};

class PluginLibrary {
public:
    // Loads and checks it; throws PLUGIN_ERROR with the reason. Stays loaded until the process
    // ends: plans and thread-local state may outlive any owner.
    static std::shared_ptr<const PluginLibrary> load(const std::string& path);

    const std::string& path() const { return path_; }
    const std::string& name() const { return name_; }
    const std::string& version() const { return version_; }
    const plugin::ApiVersion& api_version() const { return api_version_; }
    const std::vector<EngineInfo>& engines() const { return engines_; }
    // Engines that were left out, and why.
    const std::vector<DroppedEngine>& dropped() const { return dropped_; }
    const PluginFunctions& call() const { return functions_; }
    // Why one of its engines can run nothing as things are; empty where it can or does not say.
    RAGGEDDNN_API std::string why_unavailable(int64_t engine_id) const;

    // The plugin's text for its last failure on this thread; empty where it has none.
    std::string last_error() const;
    // Throws what a status that is no success means, with the plugin's own text.
    void check(hipdnnPluginStatus_t status, const char* function) const;

private:
    PluginLibrary() = default;
    void resolve(void* library);
    void read_identity();
    void read_engines();
    EngineInfo read_engine(int64_t id) const;

    std::string path_;
    std::string name_;
    std::string version_;
    plugin::ApiVersion api_version_;
    std::vector<EngineInfo> engines_;
    std::vector<DroppedEngine> dropped_;
    PluginFunctions functions_;
};

}  // namespace raggeddnn::backend
