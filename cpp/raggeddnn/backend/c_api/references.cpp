// The references and handles that callers hold. Each is looked up before use, so that a stale or
// foreign pointer gets an answer instead of a crash; the descriptor itself is shared, so that
// destroying a reference never pulls it from under its users.

#include <mutex>
#include <unordered_map>

#include "raggeddnn/backend/c_api/descriptor.hpp"
#include "raggeddnn/backend/handle.hpp"
#include "raggeddnn/backend/plugin_registry.hpp"
#include "raggeddnn/base/env.hpp"

// What a caller's pointer points to. Its address alone matters; the table below has the rest.
struct HipdnnBackendDescriptor {};

namespace raggeddnn::c_api {

namespace {

struct Table {
    std::mutex mutex;
    std::unordered_map<hipdnnBackendDescriptor_t, DescriptorPtr> descriptors;
    std::unordered_map<hipdnnHandle_t, std::unique_ptr<hipdnnHandle>> handles;
};

// Never destroyed: callers may destroy references from static destructors.
Table& table() {
    static Table* instance = new Table;
    return *instance;
}

[[noreturn]] void refuse_stale(const char* what) {
    bad_param(what, " got a pointer that is none of this library's, or was destroyed");
}

}  // namespace

hipdnnBackendDescriptor_t new_reference(DescriptorPtr descriptor) {
    auto reference = std::make_unique<HipdnnBackendDescriptor>();
    const std::lock_guard lock(table().mutex);
    table().descriptors.emplace(reference.get(), std::move(descriptor));
    return reference.release();
}

DescriptorPtr resolve(hipdnnBackendDescriptor_t reference, const char* what) {
    not_null(reference, what);
    const std::lock_guard lock(table().mutex);
    const auto found = table().descriptors.find(reference);
    if (found == table().descriptors.end()) refuse_stale(what);
    return found->second;
}

void rebind(hipdnnBackendDescriptor_t reference, DescriptorPtr descriptor) {
    const std::lock_guard lock(table().mutex);
    const auto found = table().descriptors.find(reference);
    if (found == table().descriptors.end()) refuse_stale("descriptor");
    found->second.swap(descriptor);
}

void destroy_reference(hipdnnBackendDescriptor_t reference) {
    not_null(reference, "descriptor");
    DescriptorPtr last;  // released after the lock
    {
        const std::lock_guard lock(table().mutex);
        const auto found = table().descriptors.find(reference);
        if (found == table().descriptors.end()) refuse_stale("descriptor");
        last = std::move(found->second);
        table().descriptors.erase(found);
    }
    delete reference;
}

hipdnnHandle_t new_handle() {
    const std::string device = read_env("RAGGEDDNN_DEVICE");
    auto handle = std::make_unique<hipdnnHandle>(device.empty() ? "cpu" : device);
    backend::PluginRegistry::instance().engines();
    const hipdnnHandle_t key = handle.get();
    const std::lock_guard lock(table().mutex);
    table().handles.emplace(key, std::move(handle));
    return key;
}

hipdnnHandle& resolve(hipdnnHandle_t handle) {
    not_null(handle, "handle");
    const std::lock_guard lock(table().mutex);
    if (!table().handles.contains(handle)) refuse_stale("handle");
    return *handle;
}

void destroy_handle(hipdnnHandle_t handle) {
    not_null(handle, "handle");
    std::unique_ptr<hipdnnHandle> last;
    const std::lock_guard lock(table().mutex);
    const auto found = table().handles.find(handle);
    if (found == table().handles.end()) refuse_stale("handle");
    last = std::move(found->second);
    table().handles.erase(found);
}

size_t live_handle_count() {
    const std::lock_guard lock(table().mutex);
    return table().handles.size();
}

}  // namespace raggeddnn::c_api
