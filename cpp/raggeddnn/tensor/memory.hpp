// A tensor's elements on the host and, where asked for, on a device: one buffer to its user, copied
// when the other side is the newer one.
#pragma once

#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/tensor/device_memory.hpp"

namespace raggeddnn {

// Pageable host memory, zeroed. Aligned for the vector loads of any engine.
template <class T>
struct HostAllocator {
    static constexpr std::align_val_t ALIGNMENT{64};  // bytes

    static T* allocate(size_t count) {
        void* memory = ::operator new(count * sizeof(T), ALIGNMENT, std::nothrow);
        if (!memory) {
            fail(ErrorCode::ALLOC_FAILED, "[tensor] got a request for ", count * sizeof(T),
                 " bytes of host memory, expected one that fits");
        }
        std::memset(memory, 0, count * sizeof(T));
        return static_cast<T*>(memory);
    }
    static void deallocate(T* memory) noexcept { ::operator delete(memory, ALIGNMENT); }
};

// Page-locked host memory of the GPU runtime, zeroed. NOT_SUPPORTED without one.
template <class T>
struct PinnedHostAllocator {
    static T* allocate(size_t count) {
        void* memory = DeviceMemoryApi::get().allocate_host(count * sizeof(T));
        if (memory) std::memset(memory, 0, count * sizeof(T));
        return static_cast<T*>(memory);
    }
    static void deallocate(T* memory) noexcept {
        if (memory) DeviceMemoryApi::get().deallocate_host(memory);
    }
};

template <class T>
struct DeviceAllocator {
    static T* allocate(size_t count) {
        return static_cast<T*>(DeviceMemoryApi::get().allocate(count * sizeof(T)));
    }
    static void deallocate(T* memory) noexcept {
        if (memory) DeviceMemoryApi::get().deallocate(memory);
    }
};

// What a tensor needs of its memory.
template <class T>
class IMigratableMemory {
public:
    virtual ~IMigratableMemory() = default;
    virtual size_t count() const = 0;  // elements
    // On the host, with the newest values; the mutable form makes the host the newer side.
    virtual T* host_data() = 0;
    virtual const T* host_data() const = 0;
    // On the device, with the newest values; the device is the newer side from then on.
    virtual T* device_data() = 0;
};

// Owned memory. The device's part is allocated when it is first asked for.
template <class T, class HostAlloc = HostAllocator<T>, class DeviceAlloc = DeviceAllocator<T>>
class MigratableMemory : public IMigratableMemory<T> {
public:
    explicit MigratableMemory(size_t count) : count_(count) {
        if (count > std::numeric_limits<size_t>::max() / 2 / sizeof(T)) {
            fail(ErrorCode::ALLOC_FAILED, "[tensor] got a request for ", count,
                 " elements of host memory, expected one that fits");
        }
        host_.reset(HostAlloc::allocate(count));
    }

    size_t count() const override { return count_; }
    T* host_data() override {
        update_host();
        if (newest_ != Side::HOST) newest_ = Side::HOST;
        return host_.get();
    }
    const T* host_data() const override {
        update_host();
        return host_.get();
    }
    T* device_data() override {
        if (!device_) device_.reset(DeviceAlloc::allocate(count_));
        if (newest_ == Side::HOST) {
            DeviceMemoryApi::get().copy_to_device(device_.get(), host_.get(), bytes());
        }
        newest_ = Side::DEVICE;
        return device_.get();
    }

private:
    enum class Side { HOST, DEVICE, BOTH };
    struct FreeHost {
        void operator()(T* memory) const noexcept { HostAlloc::deallocate(memory); }
    };
    struct FreeDevice {
        void operator()(T* memory) const noexcept { DeviceAlloc::deallocate(memory); }
    };

    size_t bytes() const { return count_ * sizeof(T); }
    void update_host() const {
        if (newest_ != Side::DEVICE) return;
        DeviceMemoryApi::get().copy_to_host(host_.get(), device_.get(), bytes());
        newest_ = Side::BOTH;
    }

    size_t count_;
    std::unique_ptr<T, FreeHost> host_;
    std::unique_ptr<T, FreeDevice> device_;
    mutable Side newest_ = Side::HOST;
};

// Borrowed host memory.
template <class T>
class ShallowHostOnlyMigratableMemory : public IMigratableMemory<T> {
public:
    ShallowHostOnlyMigratableMemory(void* data, size_t count)
        : data_(static_cast<T*>(data)), count_(count) {
        if (!data && count > 0) {
            invalid("[tensor] data got a null pointer, expected memory of ", count, " elements");
        }
    }

    size_t count() const override { return count_; }
    T* host_data() override { return data_; }
    const T* host_data() const override { return data_; }
    T* device_data() override {
        fail(
            ErrorCode::NOT_SUPPORTED,
            "[tensor] got a request for the device data of borrowed host memory, expected a tensor "
            "that owns its memory");
    }

private:
    T* data_;
    size_t count_;
};

}  // namespace raggeddnn
