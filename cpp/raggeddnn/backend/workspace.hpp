// The memory of executes that bring no workspace of their own: kept for each thread, grown to the
// largest that was asked for.
#pragma once

#include <cstddef>
#include <map>
#include <new>
#include <string>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/tensor/device_memory.hpp"

namespace raggeddnn::backend {

class HostWorkspace {
public:
    HostWorkspace() = default;
    ~HostWorkspace() { release(); }
    HostWorkspace(const HostWorkspace&) = delete;
    HostWorkspace& operator=(const HostWorkspace&) = delete;

    void* at_least(size_t bytes) {
        if (bytes > size_) {
            release();
            data_ = ::operator new(bytes, ALIGNMENT);
            size_ = bytes;
        }
        return data_;
    }

private:
    static constexpr std::align_val_t ALIGNMENT{256};  // bytes

    void release() {
        ::operator delete(data_, ALIGNMENT);
        data_ = nullptr;
        size_ = 0;
    }
    void* data_ = nullptr;
    size_t size_ = 0;
};

class DeviceWorkspace {
public:
    DeviceWorkspace() = default;
    ~DeviceWorkspace() {
        if (data_) DeviceMemoryApi::get().deallocate(data_);
    }
    DeviceWorkspace(const DeviceWorkspace&) = delete;
    DeviceWorkspace& operator=(const DeviceWorkspace&) = delete;

    // For work on the stream. Executes of one stream follow each other; before another stream, or
    // larger memory, takes over, the device finishes what it has.
    void* at_least(size_t bytes, void* stream) {
        const DeviceMemoryApi& api = DeviceMemoryApi::get();
        if (data_ && (bytes > size_ || stream != stream_)) api.synchronize_device();
        if (bytes > size_) {
            api.deallocate(data_);
            data_ = nullptr;
            size_ = 0;
            data_ = api.allocate(bytes);
            size_ = bytes;
        }
        stream_ = stream;
        return data_;
    }

private:
    void* data_ = nullptr;
    size_t size_ = 0;
    void* stream_ = nullptr;
};

// `device` as plans state it, `call` for the message. INVALID_VALUE where this process has no
// runtime for its memory.
inline void* own_workspace(const std::string& device, size_t bytes, void* stream,
                           const char* call) {
    if (device == "cpu") {
        static thread_local HostWorkspace own;
        return own.at_least(bytes);
    }
    std::string why;
    try {
        const DeviceMemoryApi& api = DeviceMemoryApi::get();
        static thread_local std::map<int, DeviceWorkspace> own;  // by device
        if (api.device() == device) return own[api.current_device()].at_least(bytes, stream);
        why = message("the runtime here is ", api.name());
    } catch (const Exception& e) {
        if (e.code() != ErrorCode::NOT_SUPPORTED) throw;
        why = e.what();
    }
    invalid(call, ": workspace is null, expected ", bytes, " bytes of ", device, " memory (", why,
            ")");
}

}  // namespace raggeddnn::backend
