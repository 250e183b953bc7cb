// A backend handle: which device and stream, and each plugin's own handle for it. Used by one
// thread at a time, as plugins may assume.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "raggeddnn/backend/plugin_library.hpp"

namespace raggeddnn::backend {

// A plugin's handle; shared by the backend handle that created it and the plans built with it, so
// that each plan can release its context whatever is destroyed first.
class PluginHandle {
public:
    explicit PluginHandle(std::shared_ptr<const PluginLibrary> library);
    ~PluginHandle();
    PluginHandle(const PluginHandle&) = delete;
    PluginHandle& operator=(const PluginHandle&) = delete;

    hipdnnEnginePluginHandle_t get() const { return handle_; }
    const PluginLibrary& library() const { return *library_; }
    void set_stream(void* stream);

private:
    std::shared_ptr<const PluginLibrary> library_;
    hipdnnEnginePluginHandle_t handle_ = nullptr;
    void* stream_ = nullptr;
};

}  // namespace raggeddnn::backend

struct RAGGEDDNN_API hipdnnHandle {
public:
    explicit hipdnnHandle(std::string device = "cpu", void* stream = nullptr);

    const std::string& device() const { return device_; }
    void* stream() const { return stream_; }
    void set_stream(void* stream) { stream_ = stream; }

    // The plugin's handle, created on first use, with this handle's stream.
    const std::shared_ptr<raggeddnn::backend::PluginHandle>& plugin_handle(
        const std::shared_ptr<const raggeddnn::backend::PluginLibrary>& library);

    // This thread's handle for a device.
    static hipdnnHandle& of_thread(const std::string& device = "cpu");

private:
    std::string device_;
    void* stream_;
    std::unordered_map<const raggeddnn::backend::PluginLibrary*,
                       std::shared_ptr<raggeddnn::backend::PluginHandle>>
        plugin_handles_;
};
