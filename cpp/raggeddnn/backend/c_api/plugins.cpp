// The exported functions about plugins, engines and heuristic policies.
#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

#include "raggeddnn/backend/c_api/descriptor.hpp"
#include "raggeddnn/backend/c_api/policy.hpp"
#include "raggeddnn/backend/handle.hpp"
#include "raggeddnn/backend/plugin_registry.hpp"
#include "raggeddnn/base/log.hpp"

namespace raggeddnn::c_api {

namespace {

namespace fs = std::filesystem;
using backend::LoadedEngine;
using backend::PluginRegistry;

fs::path library_folder() {
    Dl_info info{};
    std::error_code error;
    if (!dladdr(reinterpret_cast<const void*>(&hipdnnCreate), &info) || !info.dli_fname) return {};
    return fs::canonical(info.dli_fname, error).parent_path();
}

// Absolute, with the prefix and the ending that were left out.
std::string plugin_path(const char* given) {
    const fs::path path =
        fs::path(given).is_absolute() ? fs::path(given) : library_folder() / given;
    const std::string name = path.filename().string();
    std::error_code error;
    for (const std::string& candidate : {name, name + ".so", "lib" + name, "lib" + name + ".so"}) {
        const fs::path file = path.parent_path() / candidate;
        if (fs::exists(file, error)) return file.lexically_normal().string();
    }
    bad_param("plugin path '", given, "' does not exist, expected a folder or a plugin file");
}

void expect_no_handle(const char* what) {
    if (const size_t live = live_handle_count(); live > 0) {
        refuse(HIPDNN_STATUS_NOT_SUPPORTED, what, " while ", live,
               " handles exist, expected before the first is created");
    }
}

void expect_mode(int mode, int last) {
    if (mode < 0 || mode > last) bad_param("mode is ", mode, ", expected 0 to ", last);
}

void set_paths(size_t count, const char* const* paths, hipdnnPluginLoadingMode_ext_t mode) {
    if (count > 0) not_null(paths, "paths");
    expect_mode(mode, HIPDNN_PLUGIN_LOADING_ABSOLUTE);
    expect_no_handle("plugin paths are set");
    if (count > static_cast<size_t>(MAX_ELEMENTS)) {
        bad_param("got ", count, " paths, expected at most ", MAX_ELEMENTS);
    }
    std::vector<std::string> resolved;
    for (size_t i = 0; i < count; ++i) {
        resolved.push_back(plugin_path(not_null(paths[i], "a plugin path")));
    }
    if (mode == HIPDNN_PLUGIN_LOADING_ABSOLUTE) PluginRegistry::instance().forget_all();
    for (const std::string& path : resolved) PluginRegistry::instance().add_path(path);
}

std::vector<LoadedEngine> engines_by_name() {
    std::vector<LoadedEngine> engines = PluginRegistry::instance().engines();
    std::sort(engines.begin(), engines.end(), [](const LoadedEngine& a, const LoadedEngine& b) {
        return a.info.name < b.info.name;
    });
    return engines;
}

// A text of a function that returns several: its buffer, its length in and out.
struct TextSlot {
    char* buffer;
    size_t* length;
    std::string text;
};

void hand_out_texts(const std::vector<TextSlot>& slots) {
    bool is_question = false;
    for (const TextSlot& slot : slots) {
        not_null(slot.length, "a length");
        is_question = is_question || !slot.buffer;
    }
    for (const TextSlot& slot : slots) {
        const size_t needed = slot.text.size() + 1;
        if (!is_question && *slot.length < needed) {
            bad_param("a buffer has ", *slot.length, " bytes, expected at least ", needed);
        }
    }
    for (const TextSlot& slot : slots) {
        *slot.length = slot.text.size() + 1;
        if (!is_question) std::memcpy(slot.buffer, slot.text.c_str(), slot.text.size() + 1);
    }
}

void hand_out_plugin_paths(size_t* count, char** paths, size_t* max_length) {
    not_null(count, "path_count");
    not_null(max_length, "max_length");
    std::vector<std::string> loaded;
    size_t longest = 0;
    for (const backend::PluginEntry& entry : PluginRegistry::instance().plugins()) {
        if (!entry.library) continue;
        loaded.push_back(entry.path);
        longest = std::max(longest, entry.path.size() + 1);
    }
    if (paths && (*count < loaded.size() || *max_length < longest)) {
        bad_param("got ", *count, " buffers of ", *max_length, " bytes, expected at least ",
                  loaded.size(), " of ", longest);
    }
    for (size_t i = 0; paths && i < loaded.size(); ++i) {
        std::memcpy(not_null(paths[i], "a path buffer"), loaded[i].c_str(), loaded[i].size() + 1);
    }
    *count = loaded.size();
    *max_length = longest;
}

}  // namespace

}  // namespace raggeddnn::c_api

using namespace raggeddnn::c_api;

extern "C" {

hipdnnStatus_t hipdnnSetEnginePluginPaths_ext(size_t path_count, const char* const* paths,
                                              hipdnnPluginLoadingMode_ext_t loading_mode) {
    return guarded(__func__, [&] { set_paths(path_count, paths, loading_mode); });
}

hipdnnStatus_t hipdnnSetHeuristicPluginPaths_ext(size_t path_count, const char* const* paths,
                                                 hipdnnPluginLoadingMode_ext_t loading_mode) {
    return guarded(__func__, [&] {
        if (path_count > 0) not_null(paths, "paths");
        expect_mode(loading_mode, HIPDNN_PLUGIN_LOADING_ABSOLUTE);
        expect_no_handle("heuristic plugin paths are set");
        if (path_count > 0) {
            refuse(HIPDNN_STATUS_NOT_SUPPORTED, "heuristic plugins are not loaded, got ",
                   path_count, " paths, expected none");
        }
    });
}

hipdnnStatus_t hipdnnSetPluginUnloadMode_ext(hipdnnPluginUnloadingMode_ext_t unloading_mode) {
    return guarded(__func__, [&] {
        expect_mode(unloading_mode, HIPDNN_PLUGIN_UNLOAD_EAGER);
        if (unloading_mode == HIPDNN_PLUGIN_UNLOAD_EAGER) {
            raggeddnn::log(raggeddnn::LogLevel::WARN, "unload mode EAGER: plugins stay loaded");
        }
    });
}

hipdnnStatus_t hipdnnGetLoadedEnginePluginPaths_ext(hipdnnHandle_t handle, size_t* path_count,
                                                    char** paths, size_t* max_length) {
    return guarded(__func__, [&] {
        resolve(handle);
        hand_out_plugin_paths(path_count, paths, max_length);
    });
}

hipdnnStatus_t hipdnnGetEngineCount_ext(hipdnnHandle_t handle, size_t* engine_count) {
    return guarded(__func__, [&] {
        resolve(handle);
        *not_null(engine_count, "engine_count") = PluginRegistry::instance().engines().size();
    });
}

hipdnnStatus_t hipdnnGetEngineInfo_ext(hipdnnHandle_t handle, size_t engine_index,
                                       int64_t* engine_id, char* engine_name,
                                       size_t* engine_name_length, char* plugin_name,
                                       size_t* plugin_name_length, char* version,
                                       size_t* version_length, char* type, size_t* type_length) {
    return guarded(__func__, [&] {
        resolve(handle);
        const std::vector<LoadedEngine> engines = engines_by_name();
        if (engine_index >= engines.size()) {
            bad_param("engine_index is ", engine_index, ", expected less than ", engines.size());
        }
        const LoadedEngine& engine = engines[engine_index];
        hand_out_texts({{engine_name, engine_name_length, engine.info.name},
                        {plugin_name, plugin_name_length, engine.library->name()},
                        {version, version_length, engine.library->version()},
                        {type, type_length, "engine"}});
        if (engine_id) *engine_id = engine.info.id;
    });
}

hipdnnStatus_t hipdnnGetEngineIdByName_ext(hipdnnHandle_t handle, const char* engine_name,
                                           int64_t* engine_id) {
    return guarded(__func__, [&] {
        resolve(handle);
        not_null(engine_name, "engine_name");
        not_null(engine_id, "engine_id");
        for (const LoadedEngine& engine : PluginRegistry::instance().engines()) {
            if (engine.info.name != engine_name) continue;
            *engine_id = engine.info.id;
            return;
        }
        refuse(HIPDNN_STATUS_NOT_SUPPORTED, "no loaded engine is named '", engine_name, "'");
    });
}

hipdnnStatus_t hipdnnGetHeuristicPolicyCount_ext(hipdnnHandle_t handle, size_t* policy_count) {
    return guarded(__func__, [&] {
        resolve(handle);
        *not_null(policy_count, "policy_count") = 1;
    });
}

hipdnnStatus_t hipdnnGetHeuristicPolicyInfo_ext(hipdnnHandle_t handle, size_t policy_index,
                                                int64_t* policy_id_out, char* policy_name,
                                                size_t* policy_name_length, char* plugin_name,
                                                size_t* plugin_name_length, char* plugin_version,
                                                size_t* plugin_version_length, char* api_version,
                                                size_t* api_version_length) {
    return guarded(__func__, [&] {
        resolve(handle);
        if (policy_index != 0) bad_param("policy_index is ", policy_index, ", expected 0");
        hand_out_texts({{policy_name, policy_name_length, POLICY_NAME},
                        {plugin_name, plugin_name_length, "raggeddnn"},
                        {plugin_version, plugin_version_length, RAGGEDDNN_VERSION},
                        {api_version, api_version_length, "1.0.0"}});
        if (policy_id_out) *policy_id_out = POLICY_ID;
    });
}

}  // extern "C"
