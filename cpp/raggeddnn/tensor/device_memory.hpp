// Device memory without linking a GPU runtime: HIP's or CUDA's is opened at the first use.
// Host-only use of the data SDK never comes here.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <span>
#include <string>

#include "raggeddnn/base/error.hpp"

namespace raggeddnn {

// The functions of a GPU runtime that memory needs; HIP and CUDA agree on their signatures and on
// the numbers of the copy kinds.
class DeviceMemoryApi {
public:
    // The runtime of this process; NOT_SUPPORTED, naming what was looked for, where there is none
    // with a device. A failure is not remembered.
    static const DeviceMemoryApi& get() {
        static const DeviceMemoryApi api = load();
        return api;
    }

    const char* name() const { return name_; }

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
    // Both wait until the bytes have arrived.
    void copy_to_device(void* to, const void* from, size_t bytes) const {
        copy(to, from, bytes, HOST_TO_DEVICE, "to the device");
    }
    void copy_to_host(void* to, const void* from, size_t bytes) const {
        copy(to, from, bytes, DEVICE_TO_HOST, "to the host");
    }

private:
    static constexpr int HOST_TO_DEVICE = 1;
    static constexpr int DEVICE_TO_HOST = 2;

    struct Names {
        const char* runtime;
        std::span<const char* const> libraries;
        const char* malloc;
        const char* free;
        const char* host_malloc;
        const char* host_free;
        const char* copy;
        const char* error_string;
        const char* device_count;
    };

    static DeviceMemoryApi load() {
        static constexpr const char* HIP_LIBRARIES[] = {"libamdhip64.so", "libamdhip64.so.7",
                                                        "libamdhip64.so.6", "libamdhip64.so.5"};
        static constexpr const char* CUDA_LIBRARIES[] = {"libcudart.so", "libcudart.so.13",
                                                         "libcudart.so.12", "libcudart.so.11.0"};
        static constexpr Names RUNTIMES[] = {
            {"HIP", HIP_LIBRARIES, "hipMalloc", "hipFree", "hipHostMalloc", "hipHostFree",
             "hipMemcpy", "hipGetErrorString", "hipGetDeviceCount"},
            {"CUDA", CUDA_LIBRARIES, "cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost",
             "cudaMemcpy", "cudaGetErrorString", "cudaGetDeviceCount"}};
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
        int (*device_count)(int*) = nullptr;
        const char* missing = nullptr;
        const auto find = [&](auto& function, const char* symbol) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
                dlsym(library, symbol));
            if (!function && !missing) missing = symbol;
        };
        find(malloc_, names.malloc);
        find(free_, names.free);
        find(host_malloc_, names.host_malloc);
        find(host_free_, names.host_free);
        find(copy_, names.copy);
        find(error_string_, names.error_string);
        find(device_count, names.device_count);
        if (missing) return message(names.runtime, " (its library has no ", missing, ")");
        int count = 0;
        const int status = device_count(&count);
        if (status != 0) return message(names.runtime, " (", error_string_(status), ")");
        return count > 0 ? std::string() : message(names.runtime, " (no device)");
    }

    void copy(void* to, const void* from, size_t bytes, int kind, const char* where) const {
        if (bytes == 0) return;
        if (const int status = copy_(to, from, bytes, kind); status != 0) {
            fail(ErrorCode::EXECUTION_FAILED, "[tensor] ", name_, " failed to copy ", bytes,
                 " bytes ", where, ": ", error_string_(status));
        }
    }

    const char* name_ = "";
    int (*malloc_)(void**, size_t) = nullptr;
    int (*free_)(void*) = nullptr;
    int (*host_malloc_)(void**, size_t, unsigned) = nullptr;
    int (*host_free_)(void*) = nullptr;
    int (*copy_)(void*, const void*, size_t, int) = nullptr;
    const char* (*error_string_)(int) = nullptr;
};

}  // namespace raggeddnn
