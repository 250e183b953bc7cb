// The plugin's exported functions. Include it in exactly one source file of a plugin and state the
// plugin there:
//
//     #include "raggeddnn/plugin/export.hpp"
//     RAGGEDDNN_ENGINE_PLUGIN("my_plugin", "0.1.0", MyEngine)
#pragma once

#include "raggeddnn/plugin/engine_list.hpp"

// NAME and VERSION are string literals; the rest are Engine types.
#define RAGGEDDNN_ENGINE_PLUGIN(NAME, VERSION, ...)                                             \
    const raggeddnn::plugin::detail::PluginIdentity& raggeddnn::plugin::detail::this_plugin() { \
        static const PluginIdentity identity{NAME, VERSION, make_engine_list<__VA_ARGS__>()};   \
        return identity;                                                                        \
    }

#define RAGGEDDNN_PLUGIN_NOT_NULL(argument) \
    if (!(argument)) return raggeddnn::plugin::detail::null_argument(__func__, #argument)

using raggeddnn::plugin::detail::EngineList;
using raggeddnn::plugin::detail::guarded;
using raggeddnn::plugin::detail::LastError;
using raggeddnn::plugin::detail::this_plugin;

extern "C" {

hipdnnPluginStatus_t hipdnnPluginGetName(const char** name) {
    RAGGEDDNN_PLUGIN_NOT_NULL(name);
    *name = this_plugin().name;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnPluginGetVersion(const char** version) {
    RAGGEDDNN_PLUGIN_NOT_NULL(version);
    *version = this_plugin().version;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnPluginGetType(hipdnnPluginType_t* type) {
    RAGGEDDNN_PLUGIN_NOT_NULL(type);
    *type = HIPDNN_PLUGIN_TYPE_ENGINE;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnPluginGetApiVersion(const char** version) {
    RAGGEDDNN_PLUGIN_NOT_NULL(version);
    *version = HIPDNN_ENGINE_API_VERSION;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

void hipdnnPluginGetLastErrorString(const char** text) {
    if (text) *text = LastError::of_thread().take();
}

hipdnnPluginStatus_t hipdnnPluginSetLoggingCallback(hipdnnCallback_t callback) {
    raggeddnn::plugin::detail::logging_callback() = callback;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetAllEngineIds(int64_t* ids, uint32_t max_ids,
                                                       uint32_t* count) {
    RAGGEDDNN_PLUGIN_NOT_NULL(count);
    return guarded([&] { return this_plugin().engines.ids(ids, max_ids, count); });
}

hipdnnPluginStatus_t hipdnnEnginePluginGetEngineName(int64_t engine_id, const char** name) {
    RAGGEDDNN_PLUGIN_NOT_NULL(name);
    const raggeddnn::plugin::Engine* engine = this_plugin().engines.find(engine_id);
    if (!engine) return HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;
    *name = engine->name();
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginCreate(hipdnnEnginePluginHandle_t* handle) {
    RAGGEDDNN_PLUGIN_NOT_NULL(handle);
    return guarded([&] {
        *handle = new hipdnnEnginePluginHandle;
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    });
}

hipdnnPluginStatus_t hipdnnEnginePluginDestroy(hipdnnEnginePluginHandle_t handle) {
    delete handle;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginSetStream(hipdnnEnginePluginHandle_t handle,
                                                 hipdnnPluginStream_t stream) {
    RAGGEDDNN_PLUGIN_NOT_NULL(handle);
    handle->stream = stream;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetApplicableEngineIds(hipdnnEnginePluginHandle_t handle,
                                                              const hipdnnPluginConstData_t* graph,
                                                              int64_t* ids, uint32_t max_ids,
                                                              uint32_t* count) {
    RAGGEDDNN_PLUGIN_NOT_NULL(handle);
    RAGGEDDNN_PLUGIN_NOT_NULL(graph);
    RAGGEDDNN_PLUGIN_NOT_NULL(count);
    return guarded([&] { return this_plugin().engines.applicable(*graph, ids, max_ids, count); });
}

hipdnnPluginStatus_t hipdnnEnginePluginGetEngineDetails(hipdnnEnginePluginHandle_t handle,
                                                        int64_t engine_id,
                                                        const hipdnnPluginConstData_t*,
                                                        hipdnnPluginConstData_t* details) {
    RAGGEDDNN_PLUGIN_NOT_NULL(handle);
    RAGGEDDNN_PLUGIN_NOT_NULL(details);
    return guarded([&] { return this_plugin().engines.details(engine_id, details); });
}

hipdnnPluginStatus_t hipdnnEnginePluginDestroyEngineDetails(hipdnnEnginePluginHandle_t,
                                                            hipdnnPluginConstData_t* details) {
    RAGGEDDNN_PLUGIN_NOT_NULL(details);
    EngineList::release(details);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSize(
    hipdnnEnginePluginHandle_t handle, const hipdnnPluginConstData_t* engine_config,
    const hipdnnPluginConstData_t* graph, size_t* workspace_size) {
    RAGGEDDNN_PLUGIN_NOT_NULL(handle);
    RAGGEDDNN_PLUGIN_NOT_NULL(engine_config);
    RAGGEDDNN_PLUGIN_NOT_NULL(graph);
    RAGGEDDNN_PLUGIN_NOT_NULL(workspace_size);
    return guarded([&] {
        *workspace_size =
            this_plugin().engines.build(*engine_config, *graph)->plan->workspace_size();
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    });
}

hipdnnPluginStatus_t hipdnnEnginePluginCreateExecutionContext(
    hipdnnEnginePluginHandle_t handle, const hipdnnPluginConstData_t* engine_config,
    const hipdnnPluginConstData_t* graph, hipdnnEnginePluginExecutionContext_t* context) {
    RAGGEDDNN_PLUGIN_NOT_NULL(handle);
    RAGGEDDNN_PLUGIN_NOT_NULL(engine_config);
    RAGGEDDNN_PLUGIN_NOT_NULL(graph);
    RAGGEDDNN_PLUGIN_NOT_NULL(context);
    return guarded([&] {
        *context = this_plugin().engines.build(*engine_config, *graph).release();
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    });
}

hipdnnPluginStatus_t hipdnnEnginePluginDestroyExecutionContext(
    hipdnnEnginePluginHandle_t, hipdnnEnginePluginExecutionContext_t context) {
    delete context;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context,
    size_t* workspace_size) {
    RAGGEDDNN_PLUGIN_NOT_NULL(handle);
    RAGGEDDNN_PLUGIN_NOT_NULL(context);
    RAGGEDDNN_PLUGIN_NOT_NULL(workspace_size);
    *workspace_size = context->plan->workspace_size();
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginExecuteOpGraph(hipdnnEnginePluginHandle_t handle,
                                                      hipdnnEnginePluginExecutionContext_t context,
                                                      void* workspace,
                                                      const hipdnnPluginDeviceBuffer_t* buffers,
                                                      uint32_t buffer_count) {
    RAGGEDDNN_PLUGIN_NOT_NULL(handle);
    RAGGEDDNN_PLUGIN_NOT_NULL(context);
    if (buffer_count > 0) RAGGEDDNN_PLUGIN_NOT_NULL(buffers);
    return guarded([&] {
        const raggeddnn::plugin::Buffers pack(buffers, buffer_count);
        context->plan->execute({pack, workspace, handle->stream});
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    });
}

hipdnnPluginStatus_t hipdnnEnginePluginExecuteOpGraphWithOverrides(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context,
    void* workspace, const hipdnnPluginDeviceBuffer_t* buffers, uint32_t buffer_count,
    uint32_t override_count, const int64_t* uids, const uint32_t* lengths,
    const int64_t* const* shapes, const int64_t* const* strides) {
    RAGGEDDNN_PLUGIN_NOT_NULL(handle);
    RAGGEDDNN_PLUGIN_NOT_NULL(context);
    if (buffer_count > 0) RAGGEDDNN_PLUGIN_NOT_NULL(buffers);
    if (override_count > 0) {
        RAGGEDDNN_PLUGIN_NOT_NULL(uids);
        RAGGEDDNN_PLUGIN_NOT_NULL(lengths);
        RAGGEDDNN_PLUGIN_NOT_NULL(shapes);
        RAGGEDDNN_PLUGIN_NOT_NULL(strides);
    }
    return guarded([&] {
        std::vector<raggeddnn::ShapeOverride> overrides;
        for (uint32_t i = 0; i < override_count; ++i) {
            overrides.push_back({uids[i],
                                 {shapes[i], shapes[i] + lengths[i]},
                                 {strides[i], strides[i] + lengths[i]}});
        }
        const raggeddnn::plugin::Buffers pack(buffers, buffer_count);
        context->plan->execute_with_overrides({pack, workspace, handle->stream}, overrides);
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    });
}

hipdnnPluginStatus_t hipdnnEnginePluginSerializeExecutionContextWithEngineId(
    hipdnnEnginePluginHandle_t handle, int64_t engine_id,
    hipdnnEnginePluginExecutionContext_t context, hipdnnPluginConstData_t* data) {
    RAGGEDDNN_PLUGIN_NOT_NULL(handle);
    RAGGEDDNN_PLUGIN_NOT_NULL(context);
    RAGGEDDNN_PLUGIN_NOT_NULL(data);
    return guarded([&] {
        *data = EngineList::hand_out(
            this_plugin().engines.save(engine_id, *context, this_plugin().version));
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    });
}

hipdnnPluginStatus_t hipdnnEnginePluginDestroySerializedExecutionContext(
    hipdnnEnginePluginHandle_t, hipdnnPluginConstData_t* data) {
    RAGGEDDNN_PLUGIN_NOT_NULL(data);
    EngineList::release(data);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginCreateExecutionContextFromSerialized(
    hipdnnEnginePluginHandle_t handle, const hipdnnPluginConstData_t* data,
    hipdnnEnginePluginExecutionContext_t* context) {
    RAGGEDDNN_PLUGIN_NOT_NULL(handle);
    RAGGEDDNN_PLUGIN_NOT_NULL(data);
    RAGGEDDNN_PLUGIN_NOT_NULL(context);
    return guarded([&] {
        *context = this_plugin().engines.restore(*data, this_plugin().version).release();
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    });
}

hipdnnPluginStatus_t raggeddnnEnginePluginGetEngineTraits(int64_t engine_id,
                                                          raggeddnnEngineTraits_t* traits) {
    RAGGEDDNN_PLUGIN_NOT_NULL(traits);
    return this_plugin().engines.traits(engine_id, traits);
}

hipdnnPluginStatus_t raggeddnnEnginePluginWhyUnavailable(int64_t engine_id, const char** text) {
    RAGGEDDNN_PLUGIN_NOT_NULL(text);
    return guarded([&] {
        static thread_local std::string reason;
        const auto found = this_plugin().engines.at(engine_id).why_unavailable();
        reason = found.value_or("");
        *text = found ? reason.c_str() : nullptr;
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    });
}

hipdnnPluginStatus_t raggeddnnEnginePluginExplainKernel(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context,
    const char** text) {
    RAGGEDDNN_PLUGIN_NOT_NULL(handle);
    RAGGEDDNN_PLUGIN_NOT_NULL(context);
    RAGGEDDNN_PLUGIN_NOT_NULL(text);
    *text = context->kernel.c_str();
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t raggeddnnEnginePluginReportFaults(hipdnnEnginePluginHandle_t handle,
                                                       hipdnnEnginePluginExecutionContext_t context,
                                                       const void* workspace, const char** text) {
    RAGGEDDNN_PLUGIN_NOT_NULL(handle);
    RAGGEDDNN_PLUGIN_NOT_NULL(context);
    RAGGEDDNN_PLUGIN_NOT_NULL(text);
    return guarded([&] {
        static thread_local std::string report;
        const auto found = context->plan->report_faults(workspace, handle->stream);
        report = found.value_or("");
        *text = found ? report.c_str() : nullptr;
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    });
}

hipdnnPluginStatus_t raggeddnnEnginePluginExecuteAndClear(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context,
    void* workspace, const hipdnnPluginDeviceBuffer_t* buffers, uint32_t buffer_count,
    const raggeddnnClearedOutput_t* outputs, uint32_t output_count) {
    RAGGEDDNN_PLUGIN_NOT_NULL(handle);
    RAGGEDDNN_PLUGIN_NOT_NULL(context);
    if (!context->plan->clears_outputs()) return HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;
    if (!buffers) return HIPDNN_PLUGIN_STATUS_SUCCESS;
    if (output_count > 0) RAGGEDDNN_PLUGIN_NOT_NULL(outputs);
    return guarded([&] {
        const raggeddnn::plugin::Buffers pack(buffers, buffer_count);
        context->plan->execute({pack, workspace, handle->stream, {outputs, output_count}});
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    });
}

}  // extern "C"
