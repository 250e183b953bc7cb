// Device memory without linking a GPU runtime: HIP's or CUDA's is opened at the first use.
// Host-only use of the data SDK never comes here.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

#include "raggeddnn/base/error.hpp"

namespace raggeddnn {

// The functions of a GPU runtime that memory and streams need; HIP and CUDA agree on their
// signatures, on the numbers of the copy kinds and on that of the flag of a stream.
class DeviceMemoryApi {
public:
    // The runtime of this process; NOT_SUPPORTED, naming what was looked for, where there is none
    // with a device. A failure is not remembered.
    static const DeviceMemoryApi& get() {
        static const DeviceMemoryApi api = load();
        return api;
    }

    const char* name() const { return name_; }
    const char* device() const { return device_; }  // "hip" or "cuda", as engines state it
    // Which of its devices this thread uses.
    int current_device() const {
        int index = 0;
        check(get_device_(&index), "tell the current device");
        return index;
    }

    void* allocate(size_t bytes) const {
        void* memory = nullptr;
        const int status = bytes == 0 ? 0 : malloc_(&memory, bytes);
        if (status != 0) {
            fail(ErrorCode::ALLOC_FAILED, "[tensor] ", name_, " got a request for ", bytes,
                 " bytes of device memory: ", error_string_(status));
        }
        return memory;
    }
    void deallocate(void* memory) const noexcept {
        if (memory) free_(memory);
    }
    // Page-locked host memory.
    void* allocate_host(size_t bytes) const {
        void* memory = nullptr;
        const int status = bytes == 0 ? 0 : host_malloc_(&memory, bytes, 0);
        if (status != 0) {
            fail(ErrorCode::ALLOC_FAILED, "[tensor] ", name_, " got a request for ", bytes,
                 " bytes of pinned host memory: ", error_string_(status));
        }
        return memory;
    }
    void deallocate_host(void* memory) const noexcept {
        if (memory) host_free_(memory);
    }
    // Both wait until the bytes have arrived, whatever stream reads them then.
    void copy_to_device(void* to, const void* from, size_t bytes) const {
        copy(to, from, bytes, HOST_TO_DEVICE, "to the device");
        // From pageable memory the runtime returns when it has the bytes, not the device.
        if (bytes > 0) synchronize(nullptr);
    }
    void copy_to_host(void* to, const void* from, size_t bytes) const {
        copy(to, from, bytes, DEVICE_TO_HOST, "to the host");
    }
    // In the order of the stream; waits for nothing.
    void fill_with_zeros(void* memory, size_t bytes, void* stream) const {
        if (bytes > 0) check(memset_(memory, 0, bytes, stream), "fill memory with zeros");
    }

    // One that does not wait for the default stream, nor is waited for by it.
    void* create_stream() const {
        void* stream = nullptr;
        check(stream_create_(&stream, NON_BLOCKING), "create a stream");
        return stream;
    }
    void destroy_stream(void* stream) const noexcept { stream_destroy_(stream); }
    // Wait for the work of a stream, and of all. They report what failed on the device till then.
    void synchronize(void* stream) const {
        check(stream_synchronize_(stream), "finish the work of a stream");
    }
    void synchronize_device() const { check(device_synchronize_(), "finish the device's work"); }

private:
    static constexpr int HOST_TO_DEVICE = 1;
    static constexpr int DEVICE_TO_HOST = 2;
    static constexpr unsigned NON_BLOCKING = 1;

    struct Names {
        const char* runtime;
        const char* device;  // and how all its functions begin
        std::span<const char* const> libraries;
        const char* host_malloc;
        const char* host_free;
    };

    static DeviceMemoryApi load() {
        static constexpr const char* HIP_LIBRARIES[] = {"libamdhip64.so", "libamdhip64.so.7",
                                                        "libamdhip64.so.6", "libamdhip64.so.5",
                                                        "/opt/rocm/lib/libamdhip64.so"};
        static constexpr const char* CUDA_LIBRARIES[] = {"libcudart.so", "libcudart.so.13",
                                                         "libcudart.so.12", "libcudart.so.11.0",
                                                         "/usr/local/cuda/lib64/libcudart.so"};
        static constexpr Names RUNTIMES[] = {
            {"HIP", "hip", HIP_LIBRARIES, "HostMalloc", "HostFree"},
            {"CUDA", "cuda", CUDA_LIBRARIES, "HostAlloc", "FreeHost"}};
        std::string reasons;
        for (const Names& names : RUNTIMES) {
            DeviceMemoryApi api;
            const std::string reason = api.open(names);
            if (reason.empty()) return api;
            reasons += (reasons.empty() ? "" : "; ") + reason;
        }
        fail(ErrorCode::NOT_SUPPORTED,
             "[tensor] got no GPU runtime for device or pinned memory: ", reasons);
    }

    // Empty, or why this runtime cannot be used. A library once opened stays so.
    std::string open(const Names& names) {
        name_ = names.runtime;
        device_ = names.device;
        void* library = nullptr;
        // Before any other: the one that this process already uses.
        for (const int mode : {RTLD_NOW | RTLD_NOLOAD, int(RTLD_NOW)}) {
            for (const char* file : names.libraries) {
                if (!library) library = dlopen(file, mode);
            }
        }
        if (!library) {
            std::string text = message(names.runtime, " (looked for");
            for (const char* file : names.libraries) text += message(" ", file);
            return text + "; none can be loaded)";
        }
        std::string missing;
        const auto find = [&](auto& function, const char* name) {
            const std::string symbol = message(names.device, name);
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
                dlsym(library, symbol.c_str()));
            if (!function && missing.empty()) missing = symbol;
        };
        int (*device_count)(int*) = nullptr;
        find(malloc_, "Malloc");
        find(free_, "Free");
        find(host_malloc_, names.host_malloc);
        find(host_free_, names.host_free);
        find(copy_, "Memcpy");
        find(memset_, "MemsetAsync");
        find(stream_create_, "StreamCreateWithFlags");
        find(stream_destroy_, "StreamDestroy");
        find(stream_synchronize_, "StreamSynchronize");
        find(device_synchronize_, "DeviceSynchronize");
        find(get_device_, "GetDevice");
        find(error_string_, "GetErrorString");
        find(device_count, "GetDeviceCount");
        if (!missing.empty()) return message(names.runtime, " (its library has no ", missing, ")");
        int count = 0;
        const int status = device_count(&count);
        if (status != 0) return message(names.runtime, " (", error_string_(status), ")");
        return count > 0 ? std::string() : message(names.runtime, " (no device)");
    }

    void check(int status, const char* what) const {
        if (status == 0) return;
        fail(ErrorCode::EXECUTION_FAILED, "[tensor] ", name_, " failed to ", what, ": ",
             error_string_(status));
    }
    void copy(void* to, const void* from, size_t bytes, int kind, const char* where) const {
        if (bytes == 0) return;
        if (const int status = copy_(to, from, bytes, kind); status != 0) {
            fail(ErrorCode::EXECUTION_FAILED, "[tensor] ", name_, " failed to copy ", bytes,
                 " bytes ", where, ": ", error_string_(status));
        }
    }

    const char* name_ = "";
    const char* device_ = "";
    int (*malloc_)(void**, size_t) = nullptr;
    int (*free_)(void*) = nullptr;
    int (*host_malloc_)(void**, size_t, unsigned) = nullptr;
    int (*host_free_)(void*) = nullptr;
    int (*copy_)(void*, const void*, size_t, int) = nullptr;
    int (*memset_)(void*, int, size_t, void*) = nullptr;
    int (*stream_create_)(void**, unsigned) = nullptr;
    int (*stream_destroy_)(void*) = nullptr;
    int (*stream_synchronize_)(void*) = nullptr;
    int (*device_synchronize_)() = nullptr;
    int (*get_device_)(int*) = nullptr;
    const char* (*error_string_)(int) = nullptr;
};

// A stream of its own, for as long as this lives.
class DeviceStream {
public:
    DeviceStream() : stream_(DeviceMemoryApi::get().create_stream()) {}
    ~DeviceStream() { DeviceMemoryApi::get().destroy_stream(stream_); }
    DeviceStream(const DeviceStream&) = delete;
    DeviceStream& operator=(const DeviceStream&) = delete;

    void* get() const { return stream_; }
    void synchronize() const { DeviceMemoryApi::get().synchronize(stream_); }

private:
    void* stream_;
};

}  // namespace raggeddnn
