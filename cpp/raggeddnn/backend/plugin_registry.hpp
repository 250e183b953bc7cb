// All plugins of the process: where they are looked for, what was loaded, and what could not be.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "raggeddnn/backend/plugin_library.hpp"

namespace raggeddnn::backend {

// A file that was looked at: a plugin, or the reason why it is none.
struct PluginEntry {
    std::string path;
    std::shared_ptr<const PluginLibrary> library;  // null: not loaded
    std::string reason;
    std::vector<DroppedEngine> dropped;  // engines of the plugin that cannot be used
};

// One engine and the plugin it comes from.
struct LoadedEngine {
    EngineInfo info;
    std::shared_ptr<const PluginLibrary> library;
};

class RAGGEDDNN_API PluginRegistry {
public:
    static PluginRegistry& instance();

    // Loads a plugin file, or every .so of a folder. Absolute paths only. Throws for a path that
    // does not exist, and for a single file that cannot be loaded; files of a folder that cannot
    // are listed with their reason.
    void add_path(const std::string& path);

    // As if nothing had been added and there were no default folders; what is in use stays loaded.
    void forget_all();

    std::vector<PluginEntry> plugins();
    std::vector<LoadedEngine> engines();
    // Folders and files in the order in which they are searched.
    std::vector<std::string> search_paths();

private:
    PluginRegistry() = default;
    void load_defaults();
    void add_from_environment(const char* variable);
    void add_folder(const std::string& folder);
    PluginEntry load_file(const std::string& path);
    void take_engines(PluginEntry& entry);

    std::mutex mutex_;
    bool defaults_loaded_ = false;
    std::vector<std::string> paths_;
    std::vector<PluginEntry> entries_;
    std::vector<LoadedEngine> engines_;
    std::unordered_set<int64_t> taken_ids_;
};

}  // namespace raggeddnn::backend
