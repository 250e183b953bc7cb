// The plugin C ABI over a list of Engine objects. Include it in exactly one source file of a plugin
// (it defines the exported functions) and state the plugin there:
//
//     #include "raggeddnn/plugin/export.hpp"
//     RAGGEDDNN_ENGINE_PLUGIN("my_plugin", "0.1.0", MyEngine)
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "raggeddnn/plugin/engine.hpp"

struct hipdnnEnginePluginHandle {
    hipdnnPluginStream_t stream = nullptr;
};

struct hipdnnEnginePluginExecutionContext {
    std::unique_ptr<raggeddnn::plugin::Plan> plan;
};

namespace raggeddnn::plugin::detail {

// The last error of this thread. Reading it empties it, so that the backend can tell a fresh reason
// from an old one; the text read stays valid until the next read.
class LastError {
public:
    void set(const std::string& text) { copy(current_, text); }
    void append_line(const std::string& text) {
        std::string joined = current_.data();
        if (!joined.empty()) joined += "\n";
        copy(current_, joined + text);
    }
    void clear() { current_[0] = '\0'; }
    const char* take() {
        handed_out_ = current_;
        clear();
        return handed_out_.data();
    }
    static LastError& of_thread() {
        static thread_local LastError error;
        return error;
    }

private:
    using Text = std::array<char, HIPDNN_PLUGIN_ERROR_STRING_MAX_LENGTH>;
    static void copy(Text& to, const std::string& text) {
        const size_t length = std::min(text.size(), to.size() - 1);
        std::memcpy(to.data(), text.data(), length);
        to[length] = '\0';
    }
    Text current_{};
    Text handed_out_{};
};

inline hipdnnPluginStatus_t status_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::OK: return HIPDNN_PLUGIN_STATUS_SUCCESS;
        case ErrorCode::INVALID_VALUE:
        case ErrorCode::ATTRIBUTE_NOT_SET: return HIPDNN_PLUGIN_STATUS_INVALID_VALUE;
        case ErrorCode::NOT_SUPPORTED: return HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;
        case ErrorCode::ALLOC_FAILED: return HIPDNN_PLUGIN_STATUS_ALLOC_FAILED;
        default: return HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR;
    }
}

inline std::atomic<hipdnnCallback_t>& logging_callback() {
    static std::atomic<hipdnnCallback_t> callback{nullptr};
    return callback;
}

// Keeps the text for GetLastErrorString and tells the host's log.
inline hipdnnPluginStatus_t failed(hipdnnPluginStatus_t status, const char* text) {
    LastError::of_thread().set(text);
    if (const hipdnnCallback_t callback = logging_callback()) callback(HIPDNN_SEV_ERROR, text);
    return status;
}

template <class Body>
hipdnnPluginStatus_t guarded(Body&& body) noexcept {
    LastError::of_thread().clear();
    try {
        return body();
    } catch (const Exception& e) {
        return failed(status_of(e.code()), e.what());
    } catch (const std::bad_alloc&) {
        return failed(HIPDNN_PLUGIN_STATUS_ALLOC_FAILED, "out of memory");
    } catch (const std::exception& e) {
        return failed(HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR, e.what());
    } catch (...) {
        return failed(HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR, "unknown exception");
    }
}

inline hipdnnPluginStatus_t null_argument(const char* function, const char* argument) {
    LastError::of_thread().set(std::string(function) + ": " + argument + " is null");
    return HIPDNN_PLUGIN_STATUS_BAD_PARAM;
}

// The engines of one plugin, and the ABI in terms of them.
class EngineList {
public:
    explicit EngineList(std::vector<std::unique_ptr<Engine>> engines)
        : engines_(std::move(engines)) {
        for (const auto& engine : engines_) extensions_.push_back(engine->extensions());
    }

    hipdnnPluginStatus_t ids(int64_t* ids, uint32_t max, uint32_t* count) const {
        *count = static_cast<uint32_t>(engines_.size());
        for (uint32_t i = 0; ids && i < max && i < *count; ++i)
            ids[i] = engine_id_of(engines_[i]->name());
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    }

    hipdnnPluginStatus_t applicable(const hipdnnPluginConstData_t& bytes, int64_t* ids,
                                    uint32_t max, uint32_t* count) const {
        const GraphView graph(bytes.ptr, bytes.size);
        *count = 0;
        for (const auto& engine : engines_) {
            if (const auto reason = engine->why_not(graph)) {
                LastError::of_thread().append_line(std::string(engine->name()) + ": " + *reason);
                continue;
            }
            if (ids && *count < max) ids[*count] = engine_id_of(engine->name());
            ++*count;
        }
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    }

    const Engine* find(int64_t id) const {
        for (const auto& engine : engines_) {
            if (engine_id_of(engine->name()) == id) return engine.get();
        }
        return nullptr;
    }

    const Engine& at(int64_t id) const {
        const Engine* engine = find(id);
        if (!engine) invalid("no engine of this plugin has id ", id);
        return *engine;
    }

    std::unique_ptr<Plan> build(const hipdnnPluginConstData_t& config_bytes,
                                const hipdnnPluginConstData_t& graph_bytes) const {
        const EngineConfig config(config_bytes.ptr, config_bytes.size);
        const GraphView graph(graph_bytes.ptr, graph_bytes.size);
        const Engine& engine = at(config.engine_id());
        if (const auto reason = engine.why_not(graph)) {
            fail(ErrorCode::NOT_SUPPORTED, engine.name(), ": ", *reason);
        }
        return engine.build(graph, config);
    }

    hipdnnPluginStatus_t traits(int64_t id, raggeddnnEngineTraits_t* traits) const {
        for (size_t i = 0; i < engines_.size(); ++i) {
            if (engine_id_of(engines_[i]->name()) != id) continue;
            raggeddnnEngineTraits_t full{};
            full.device = engines_[i]->device();
            full.priority = engines_[i]->priority();
            full.extension_count = static_cast<uint32_t>(extensions_[i].size());
            full.extensions = extensions_[i].data();
            const size_t size = std::min(traits->struct_size, sizeof(full));
            full.struct_size = size;
            std::memcpy(traits, &full, size);
            return HIPDNN_PLUGIN_STATUS_SUCCESS;
        }
        return HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;
    }

    hipdnnPluginStatus_t details(int64_t id, hipdnnPluginConstData_t* out) const {
        flatbuffers::FlatBufferBuilder builder;
        const auto name = builder.CreateString(at(id).name());
        schema::EngineDetailsBuilder table(builder);
        table.add_engine_id(id);
        table.add_name(name);
        builder.Finish(table.Finish());
        auto* bytes = new uint8_t[builder.GetSize()];
        std::memcpy(bytes, builder.GetBufferPointer(), builder.GetSize());
        *out = {bytes, builder.GetSize()};
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    }

private:
    std::vector<std::unique_ptr<Engine>> engines_;
    std::vector<std::vector<const char*>> extensions_;
};

struct PluginIdentity {
    const char* name;
    const char* version;
    EngineList engines;
};

// Defined by RAGGEDDNN_ENGINE_PLUGIN.
const PluginIdentity& this_plugin();

template <class... Engines>
EngineList make_engine_list() {
    std::vector<std::unique_ptr<Engine>> engines;
    (engines.push_back(std::make_unique<Engines>()), ...);
    return EngineList(std::move(engines));
}

}  // namespace raggeddnn::plugin::detail

// NAME and VERSION are string literals; the rest are Engine types.
#define RAGGEDDNN_ENGINE_PLUGIN(NAME, VERSION, ...)                                             \
    const raggeddnn::plugin::detail::PluginIdentity& raggeddnn::plugin::detail::this_plugin() { \
        static const PluginIdentity identity{NAME, VERSION, make_engine_list<__VA_ARGS__>()};   \
        return identity;                                                                        \
    }

#define RAGGEDDNN_PLUGIN_NOT_NULL(argument) \
    if (!(argument)) return raggeddnn::plugin::detail::null_argument(__func__, #argument)

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
    delete[] static_cast<const uint8_t*>(details->ptr);
    *details = {nullptr, 0};
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
        *workspace_size = this_plugin().engines.build(*engine_config, *graph)->workspace_size();
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
        auto plan = this_plugin().engines.build(*engine_config, *graph);
        *context = new hipdnnEnginePluginExecutionContext{std::move(plan)};
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

hipdnnPluginStatus_t raggeddnnEnginePluginGetEngineTraits(int64_t engine_id,
                                                          raggeddnnEngineTraits_t* traits) {
    RAGGEDDNN_PLUGIN_NOT_NULL(traits);
    return this_plugin().engines.traits(engine_id, traits);
}

}  // extern "C"
