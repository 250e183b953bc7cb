#include "raggeddnn/backend/plugin_library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/base/log.hpp"

namespace raggeddnn::backend {

namespace {

// More engines than any plugin has; a larger count is garbage.
constexpr uint32_t MAX_ENGINES = 4096;

void forward_log(hipdnnSeverity_t severity, const char* text) {
    const LogLevel level = severity >= HIPDNN_SEV_ERROR  ? LogLevel::ERROR
                           : severity == HIPDNN_SEV_WARN ? LogLevel::WARN
                                                         : LogLevel::INFO;
    log(level, text ? text : "");
}

std::string hex_of(int64_t id) {
    char text[32];
    std::snprintf(text, sizeof(text), "0x%016llx", static_cast<unsigned long long>(id));
    return text;
}

template <class Function>
void find_symbol(void* library, const char* symbol, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, symbol));
}

}  // namespace

std::shared_ptr<const PluginLibrary> PluginLibrary::load(const std::string& path) {
    std::shared_ptr<PluginLibrary> plugin(new PluginLibrary);
    plugin->path_ = path;
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) fail(ErrorCode::PLUGIN_ERROR, "cannot load plugin: ", dlerror());
    plugin->resolve(library);
    plugin->read_identity();
    plugin->read_engines();
    return plugin;
}

void PluginLibrary::resolve(void* library) {
    const auto required = [&](const char* symbol, auto& function) {
        find_symbol(library, symbol, function);
        if (!function) {
            fail(ErrorCode::PLUGIN_ERROR, "plugin ", path_, " lacks the function ", symbol,
                 ", expected an engine plugin of the hipDNN plugin API");
        }
    };
    PluginFunctions& f = functions_;
    required("hipdnnPluginGetName", f.get_name);
    required("hipdnnPluginGetVersion", f.get_version);
    required("hipdnnPluginGetType", f.get_type);
    required("hipdnnPluginGetLastErrorString", f.get_last_error);
    required("hipdnnPluginSetLoggingCallback", f.set_logging_callback);
    required("hipdnnEnginePluginGetAllEngineIds", f.get_all_engine_ids);
    required("hipdnnEnginePluginCreate", f.create);
    required("hipdnnEnginePluginDestroy", f.destroy);
    required("hipdnnEnginePluginSetStream", f.set_stream);
    required("hipdnnEnginePluginGetApplicableEngineIds", f.get_applicable_engine_ids);
    required("hipdnnEnginePluginGetEngineDetails", f.get_engine_details);
    required("hipdnnEnginePluginDestroyEngineDetails", f.destroy_engine_details);
    required("hipdnnEnginePluginGetWorkspaceSize", f.get_workspace_size);
    required("hipdnnEnginePluginCreateExecutionContext", f.create_context);
    required("hipdnnEnginePluginDestroyExecutionContext", f.destroy_context);
    required("hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext", f.context_workspace_size);
    required("hipdnnEnginePluginExecuteOpGraph", f.execute);
    find_symbol(library, "hipdnnPluginGetApiVersion", f.get_api_version);
    find_symbol(library, "hipdnnEnginePluginGetEngineName", f.get_engine_name);
    find_symbol(library, "hipdnnEnginePluginExecuteOpGraphWithOverrides", f.execute_with_overrides);
    find_symbol(library, "hipdnnEnginePluginSerializeExecutionContextWithEngineId",
                f.serialize_context);
    find_symbol(library, "hipdnnEnginePluginDestroySerializedExecutionContext",
                f.destroy_serialized);
    find_symbol(library, "hipdnnEnginePluginCreateExecutionContextFromSerialized",
                f.create_from_serialized);
    if (!f.serialize_context || !f.destroy_serialized || !f.create_from_serialized) {
        f.serialize_context = nullptr;
        f.destroy_serialized = nullptr;
        f.create_from_serialized = nullptr;
    }
    find_symbol(library, "raggeddnnEnginePluginGetEngineTraits", f.get_engine_traits);
    find_symbol(library, "raggeddnnEnginePluginWhyUnavailable", f.why_unavailable);
    find_symbol(library, "raggeddnnEnginePluginExplainKernel", f.explain_kernel);
    find_symbol(library, "raggeddnnEnginePluginReportFaults", f.report_faults);
    find_symbol(library, "raggeddnnEnginePluginExecuteAndClear", f.execute_and_clear);
}

std::string PluginLibrary::last_error() const {
    const char* text = nullptr;
    functions_.get_last_error(&text);
    return text ? text : "";
}

void PluginLibrary::check(hipdnnPluginStatus_t status, const char* function) const {
    if (status == HIPDNN_PLUGIN_STATUS_SUCCESS) return;
    std::string text = last_error();
    if (text.empty()) {
        text = message("plugin ", name_.empty() ? path_ : name_, ": ", function,
                       " returned status ", static_cast<int>(status), " and no text");
    }
    switch (status) {
        case HIPDNN_PLUGIN_STATUS_INVALID_VALUE: fail(ErrorCode::INVALID_VALUE, text);
        case HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE: fail(ErrorCode::NOT_SUPPORTED, text);
        case HIPDNN_PLUGIN_STATUS_ALLOC_FAILED: fail(ErrorCode::ALLOC_FAILED, text);
        default: fail(ErrorCode::PLUGIN_ERROR, text);
    }
}

std::string PluginLibrary::why_unavailable(int64_t engine_id) const {
    if (!functions_.why_unavailable) return "";
    const char* text = nullptr;
    check(functions_.why_unavailable(engine_id, &text), "raggeddnnEnginePluginWhyUnavailable");
    return text ? text : "";
}

void PluginLibrary::read_identity() {
    const char* text = nullptr;
    check(functions_.get_name(&text), "hipdnnPluginGetName");
    name_ = text ? text : "";
    text = nullptr;
    check(functions_.get_version(&text), "hipdnnPluginGetVersion");
    version_ = text ? text : "";
    hipdnnPluginType_t type = HIPDNN_PLUGIN_TYPE_UNSPECIFIED;
    check(functions_.get_type(&type), "hipdnnPluginGetType");
    if (type != HIPDNN_PLUGIN_TYPE_ENGINE) {
        fail(ErrorCode::PLUGIN_ERROR, "plugin ", path_, " has type ", static_cast<int>(type),
             ", expected ", static_cast<int>(HIPDNN_PLUGIN_TYPE_ENGINE), " (engine)");
    }
    std::string api = "1.0.0";  // of a plugin without the symbol
    if (functions_.get_api_version) {
        text = nullptr;
        check(functions_.get_api_version(&text), "hipdnnPluginGetApiVersion");
        api = text ? text : "";
    }
    const auto parsed = plugin::parse_api_version(api);
    if (!parsed) {
        fail(ErrorCode::PLUGIN_ERROR, "plugin ", path_, " reports API version '", api,
             "', expected MAJOR.MINOR.PATCH");
    }
    if (parsed->major != HIPDNN_ENGINE_API_VERSION_MAJOR) {
        fail(ErrorCode::PLUGIN_ERROR, "plugin ", path_, " reports API version ", api,
             ", expected major version ", HIPDNN_ENGINE_API_VERSION_MAJOR);
    }
    api_version_ = *parsed;
    check(functions_.set_logging_callback(forward_log), "hipdnnPluginSetLoggingCallback");
}

EngineInfo PluginLibrary::read_engine(int64_t id) const {
    EngineInfo engine;
    engine.id = id;
    engine.name = hex_of(id);
    if (functions_.get_engine_name) {
        const char* text = nullptr;
        const hipdnnPluginStatus_t status = functions_.get_engine_name(id, &text);
        if (status != HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE) {
            check(status, "hipdnnEnginePluginGetEngineName");
            engine.name = text ? text : "";
            if (plugin::engine_id_of(engine.name) != id) {
                fail(ErrorCode::PLUGIN_ERROR, "engine '", engine.name, "' has id ", hex_of(id),
                     ", expected the FNV-1a hash of its name, ",
                     hex_of(plugin::engine_id_of(engine.name)));
            }
        }
    }
    if (functions_.get_engine_traits) {
        raggeddnnEngineTraits_t traits{};
        traits.struct_size = sizeof(traits);
        check(functions_.get_engine_traits(id, &traits), "raggeddnnEnginePluginGetEngineTraits");
        engine.device = traits.device ? traits.device : "";
        engine.priority = traits.priority;
        for (uint32_t i = 0; traits.extensions && i < traits.extension_count; ++i) {
            engine.extensions.emplace_back(traits.extensions[i]);
        }
    }
    return engine;
}

void PluginLibrary::read_engines() {
    uint32_t count = 0;
    check(functions_.get_all_engine_ids(nullptr, 0, &count), "hipdnnEnginePluginGetAllEngineIds");
    if (count > MAX_ENGINES) {
        fail(ErrorCode::PLUGIN_ERROR, "plugin ", path_, " reports ", count,
             " engines, expected at "
             "most ",
             MAX_ENGINES);
    }
    std::vector<int64_t> ids(count);
    uint32_t written = count;
    if (count > 0) {
        check(functions_.get_all_engine_ids(ids.data(), count, &written),
              "hipdnnEnginePluginGetAllEngineIds");
    }
    ids.resize(std::min(count, written));
    for (const int64_t id : ids) {
        try {
            engines_.push_back(read_engine(id));
        } catch (const Exception& e) {  // that engine is dropped, the others stay
            log(LogLevel::WARN, "plugin ", path_, ": engine dropped: ", e.what());
            dropped_.push_back({hex_of(id), e.what()});
        }
    }
}

}  // namespace raggeddnn::backend
