// Dense tensors: owning (`Tensor`, `PinnedTensor`) and over borrowed host memory (`ShallowTensor`).
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <ranges>
#include <utility>
#include <vector>

#include "raggeddnn/tensor/element_type.hpp"
#include "raggeddnn/tensor/fill.hpp"
#include "raggeddnn/tensor/itensor.hpp"
#include "raggeddnn/tensor/memory.hpp"
#include "raggeddnn/tensor/tensor_iterator.hpp"

namespace raggeddnn {

// Typed access. Every way to an element goes through ITensor::get_index, so that a type with an
// addressing of its own overrides get_index_impl and nothing else.
template <ElementType T>
class TensorBase : public ITensor {
public:
    DataType data_type() const override { return DATA_TYPE_OF<T>; }
    size_t element_size() const override { return sizeof(T); }

    virtual IMigratableMemory<T>& memory() = 0;
    virtual const IMigratableMemory<T>& memory() const = 0;
    void* raw_host_data() override { return memory().host_data(); }
    const void* raw_host_data() const override { return memory().host_data(); }
    void* raw_device_data() override { return memory().device_data(); }

    T get_host_value(const std::vector<int64_t>& indices) const {
        return memory().host_data()[get_index(indices)];
    }
    void set_host_value(T value, const std::vector<int64_t>& indices) {
        memory().host_data()[get_index(indices)] = value;
    }
    template <std::integral... Indices>
    T& operator()(Indices... indices) {
        return memory().host_data()[get_index({static_cast<int64_t>(indices)...})];
    }
    template <std::integral... Indices>
    const T& operator()(Indices... indices) const {
        return memory().host_data()[get_index({static_cast<int64_t>(indices)...})];
    }

    // Every element that iteration visits; gaps and slack of the memory stay as they are.
    void fill_with_value(T value) {
        for (void* element : *this) *static_cast<T*>(element) = value;
    }
    void fill_with_sentinel_value() override {
        std::fill_n(memory().host_data(), memory().count(), sentinel_value<T>());
    }
    void fill_with_random_values(double low, double high, uint64_t seed) override {
        RandomValues<T> values(low, high, seed);
        for (void* element : *this) *static_cast<T*>(element) = values.next();
    }
    void fill_with_data(const void* data, size_t bytes) override {
        check_data_count(bytes / sizeof(T), bytes % sizeof(T));
        if (!data && bytes > 0) invalid("[tensor] fill_with_data got a null pointer");
        if (bytes > 0) std::memcpy(memory().host_data(), data, bytes);
    }
    // The same, from a range of T: `tensor.fill_from_host(offsets)`.
    template <std::ranges::sized_range Range>
    void fill_from_host(const Range& values) {
        check_data_count(std::ranges::size(values), 0);
        std::ranges::copy(values, memory().host_data());
    }

protected:
    // May `count` elements (and `rest` bytes more) be taken over as this tensor's memory?
    virtual void check_data_count(size_t count, size_t rest) const {
        if (rest == 0 && count == element_space()) return;
        invalid("[tensor] data got ", count, " elements of ", to_string(data_type()),
                rest ? " and a part of one" : "", ", expected ", element_space(),
                ", those of the tensor's memory");
    }
};

// What dense tensors share: geometry.
template <ElementType T>
class DenseTensorBase : public TensorBase<T> {
public:
    DenseTensorBase(std::vector<int64_t> dims, std::vector<int64_t> strides)
        : dims_(std::move(dims)), strides_(std::move(strides)) {
        check_geometry(dims_, strides_);
        element_count_ = static_cast<size_t>(count_elements(dims_));
        element_space_ = static_cast<size_t>(count_space(dims_, strides_));
    }

    const std::vector<int64_t>& dims() const override { return dims_; }
    const std::vector<int64_t>& strides() const override { return strides_; }
    size_t element_count() const override { return element_count_; }
    size_t element_space() const override { return element_space_; }
    bool is_packed() const override { return element_count_ == element_space_; }

private:
    std::vector<int64_t> dims_;
    std::vector<int64_t> strides_;
    size_t element_count_ = 0;
    size_t element_space_ = 0;
};

template <ElementType T, class HostAlloc = HostAllocator<T>, class DeviceAlloc = DeviceAllocator<T>>
class Tensor : public DenseTensorBase<T> {
public:
    // Row-major without gaps; zeroed.
    explicit Tensor(const std::vector<int64_t>& dims) : Tensor(dims, packed_strides(dims)) {}
    Tensor(std::vector<int64_t> dims, std::vector<int64_t> strides)
        : DenseTensorBase<T>(std::move(dims), std::move(strides)), memory_(this->element_space()) {}

    IMigratableMemory<T>& memory() override { return memory_; }
    const IMigratableMemory<T>& memory() const override { return memory_; }

private:
    MigratableMemory<T, HostAlloc, DeviceAlloc> memory_;
};

// In page-locked host memory, which copies to and from a device faster.
template <ElementType T>
using PinnedTensor = Tensor<T, PinnedHostAllocator<T>, DeviceAllocator<T>>;

// Fills of types that borrow their memory: a value or the sentinel, nothing else.
template <class Base>
class BorrowedFills : public Base {
public:
    using Base::Base;
    void fill_with_random_values(double, double, uint64_t) override { refuse("random values"); }
    void fill_with_data(const void*, size_t) override { refuse("data"); }

protected:
    void check_data_count(size_t, size_t) const override { refuse("data"); }

private:
    [[noreturn]] static void refuse(const char* what) {
        fail(ErrorCode::NOT_SUPPORTED, "[tensor] got a request to fill borrowed memory with ", what,
             ", expected a tensor that owns its memory, or fill_with_value");
    }
};

// Over host memory of the caller's, of at least element_space() elements, which must outlive it.
template <ElementType T>
class ShallowTensor : public BorrowedFills<DenseTensorBase<T>> {
public:
    ShallowTensor(void* data, std::vector<int64_t> dims, std::vector<int64_t> strides)
        : BorrowedFills<DenseTensorBase<T>>(std::move(dims), std::move(strides)),
          memory_(data, this->element_space()) {}

    IMigratableMemory<T>& memory() override { return memory_; }
    const IMigratableMemory<T>& memory() const override { return memory_; }

private:
    ShallowHostOnlyMigratableMemory<T> memory_;
};

// A ShallowTensor of the data type's elements.
inline std::shared_ptr<ITensor> make_shallow_itensor(DataType data_type, void* data,
                                                     std::vector<int64_t> dims,
                                                     std::vector<int64_t> strides) {
    return with_element_type(data_type, [&]<class T>(std::type_identity<T>) {
        return std::shared_ptr<ITensor>(
            std::make_shared<ShallowTensor<T>>(data, std::move(dims), std::move(strides)));
    });
}

}  // namespace raggeddnn
