#include "raggeddnn/backend/plugin_registry.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

#include "raggeddnn/base/env.hpp"
#include "raggeddnn/base/error.hpp"
#include "raggeddnn/base/log.hpp"

namespace raggeddnn::backend {

namespace fs = std::filesystem;

namespace {

// The folder `engines` beside the folder that holds this library.
std::string package_engine_folder() {
    Dl_info info{};
    if (!dladdr(reinterpret_cast<const void*>(&package_engine_folder), &info) || !info.dli_fname) {
        return "";
    }
    std::error_code error;
    const fs::path library = fs::canonical(info.dli_fname, error);
    return error ? "" : (library.parent_path().parent_path() / "engines").string();
}

}  // namespace

PluginRegistry& PluginRegistry::instance() {
    // Never destroyed: plans in other static objects may still point at plugins.
    static PluginRegistry* registry = new PluginRegistry;
    return *registry;
}

PluginEntry PluginRegistry::load_file(const std::string& path) {
    for (const PluginEntry& entry : entries_) {
        if (entry.path == path && entry.library) return entry;
    }
    PluginEntry entry{path, nullptr, "", {}};
    try {
        entry.library = PluginLibrary::load(path);
        take_engines(entry);
        log(LogLevel::INFO, "plugin ", path, ": ", entry.library->name(), " ",
            entry.library->version(), ", API ", plugin::to_string(entry.library->api_version()));
    } catch (const Exception& e) {
        entry.reason = e.what();
        log(LogLevel::WARN, e.what());
    }
    std::erase_if(entries_, [&](const PluginEntry& old) { return old.path == path; });
    entries_.push_back(entry);
    return entry;
}

void PluginRegistry::take_engines(PluginEntry& entry) {
    const std::shared_ptr<const PluginLibrary>& library = entry.library;
    entry.dropped = library->dropped();
    for (const EngineInfo& engine : library->engines()) {
        if (!taken_ids_.insert(engine.id).second) {
            log(LogLevel::WARN, "plugin ", library->path(), ": engine ", engine.name,
                " dropped: its id is taken by another plugin");
            entry.dropped.push_back({engine.name, "its id is taken by an engine loaded before"});
            continue;
        }
        engines_.push_back({engine, library});
    }
}

void PluginRegistry::add_folder(const std::string& folder) {
    std::vector<std::string> files;
    std::error_code error;
    for (const fs::directory_entry& file : fs::directory_iterator(folder, error)) {
        if (file.path().extension() == ".so") files.push_back(file.path().string());
    }
    std::sort(files.begin(), files.end());
    for (const std::string& file : files) load_file(file);
}

void PluginRegistry::add_from_environment(const char* variable) {
    const std::string text = read_env(variable);
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find(':', begin), text.size());
        const std::string path = text.substr(begin, end - begin);
        begin = end + 1;
        if (path.empty()) continue;
        std::error_code error;
        if (!fs::path(path).is_absolute()) {
            log(LogLevel::WARN, variable, ": '", path, "' ignored, expected an absolute path");
        } else if (fs::is_directory(path, error)) {
            paths_.push_back(path);
            add_folder(path);
        } else {
            paths_.push_back(path);
            load_file(path);
        }
    }
}

void PluginRegistry::load_defaults() {
    if (defaults_loaded_) return;
    defaults_loaded_ = true;
    const std::string folder = package_engine_folder();
    if (!folder.empty()) {
        paths_.push_back(folder);
        add_folder(folder);
    }
    add_from_environment("RAGGEDDNN_PLUGIN_PATH");
    add_from_environment("HIPDNN_PLUGIN_DIR");
}

void PluginRegistry::add_path(const std::string& path) {
    const std::lock_guard lock(mutex_);
    load_defaults();
    std::error_code error;
    if (!fs::path(path).is_absolute()) {
        invalid("plugin path '", path, "' is relative, expected an absolute path");
    }
    if (!fs::exists(path, error)) {
        invalid("plugin path '", path, "' does not exist, expected a folder or a plugin file");
    }
    if (fs::is_directory(path, error)) {
        add_folder(path);
    } else {
        const PluginEntry entry = load_file(path);
        if (!entry.library) fail(ErrorCode::PLUGIN_ERROR, entry.reason);
    }
    if (std::find(paths_.begin(), paths_.end(), path) == paths_.end()) paths_.push_back(path);
}

void PluginRegistry::forget_all() {
    const std::lock_guard lock(mutex_);
    defaults_loaded_ = true;
    paths_.clear();
    entries_.clear();
    engines_.clear();
    taken_ids_.clear();
}

std::vector<PluginEntry> PluginRegistry::plugins() {
    const std::lock_guard lock(mutex_);
    load_defaults();
    return entries_;
}

std::vector<LoadedEngine> PluginRegistry::engines() {
    const std::lock_guard lock(mutex_);
    load_defaults();
    return engines_;
}

std::vector<std::string> PluginRegistry::search_paths() {
    const std::lock_guard lock(mutex_);
    load_defaults();
    return paths_;
}

}  // namespace raggeddnn::backend
