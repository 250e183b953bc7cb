#include "raggeddnn/backend/handle.hpp"

#include <map>

#include "raggeddnn/base/error.hpp"

namespace raggeddnn::backend {

PluginHandle::PluginHandle(std::shared_ptr<const PluginLibrary> library)
    : library_(std::move(library)) {
    library_->check(library_->call().create(&handle_), "hipdnnEnginePluginCreate");
    if (!handle_) {
        fail(ErrorCode::PLUGIN_ERROR, "plugin ", library_->name(),
             " returned a null handle and success, expected a handle");
    }
}

PluginHandle::~PluginHandle() { library_->call().destroy(handle_); }

void PluginHandle::set_stream(void* stream) {
    if (stream == stream_) return;
    library_->check(library_->call().set_stream(handle_, stream), "hipdnnEnginePluginSetStream");
    stream_ = stream;
}

}  // namespace raggeddnn::backend

using raggeddnn::backend::PluginHandle;
using raggeddnn::backend::PluginLibrary;

hipdnnHandle::hipdnnHandle(std::string device, void* stream)
    : device_(std::move(device)), stream_(stream) {
    if (device_ != "cpu" && device_ != "hip" && device_ != "cuda") {
        raggeddnn::invalid("handle: device is '", device_, "', expected 'cpu', 'hip' or 'cuda'");
    }
}

const std::shared_ptr<PluginHandle>& hipdnnHandle::plugin_handle(
    const std::shared_ptr<const PluginLibrary>& library) {
    std::shared_ptr<PluginHandle>& handle = plugin_handles_[library.get()];
    if (!handle) handle = std::make_shared<PluginHandle>(library);
    handle->set_stream(stream_);
    return handle;
}

hipdnnHandle& hipdnnHandle::of_thread(const std::string& device) {
    static thread_local std::map<std::string, std::unique_ptr<hipdnnHandle>> handles;
    std::unique_ptr<hipdnnHandle>& handle = handles[device];
    if (!handle) handle = std::make_unique<hipdnnHandle>(device);
    return *handle;
}
