// The runtime tensors of one execution of a graph, by uid (ragged-tensor document, 4.11.2 and
// 4.11.3).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/tensor/ragged_tensor.hpp"

namespace raggeddnn::testing {

// A tensor, and the flat memory that it lies in, `front` elements after its beginning; what lies
// before and after the tensor is nobody's.
struct GuardedTensor {
    std::shared_ptr<ITensor> tensor;  // keeps the memory
    std::shared_ptr<ITensor> memory;
    size_t front = 0;

    void* address(bool on_device) const {
        void* begin = on_device ? memory->raw_device_data() : memory->raw_host_data();
        return static_cast<unsigned char*>(begin) + front * memory->element_size();
    }
};

// Of the dims, strides, type and offsets of `model`, with `guard` elements after it, and before it
// so many that it is aligned as without them.
inline GuardedTensor make_guarded_tensor(const ITensor& model, size_t guard) {
    constexpr size_t LINE = 64;  // elements of any type: a multiple of every alignment in use
    return with_element_type(model.data_type(), [&]<class T>(std::type_identity<T>) {
        GuardedTensor made;
        made.front = (guard + LINE - 1) / LINE * LINE;
        const size_t count = made.front + model.element_space() + guard;
        const auto memory =
            std::make_shared<Tensor<T>>(std::vector<int64_t>{static_cast<int64_t>(count)});
        T* data = memory->memory().host_data() + made.front;
        const auto destroy = [memory](ITensor* tensor) { delete tensor; };
        if (const auto* ragged = dynamic_cast<const RaggedTensorBase<T>*>(&model)) {
            made.tensor = {
                new ShallowRaggedTensor<T>(data, model.dims(), model.strides(), ragged->seq_axis(),
                                           ragged->shared_ragged_offset(), model.element_space(),
                                           ragged->ragged_offset_multiplier()),
                destroy};
        } else {
            made.tensor = {new ShallowTensor<T>(data, model.dims(), model.strides()), destroy};
        }
        made.memory = memory;
        return made;
    });
}

// Shared, since an aux is held by the ragged tensors over it, and an input that was supplied
// serves several executions.
class GraphTensorBundle {
public:
    void add(int64_t uid, std::shared_ptr<ITensor> tensor) {
        guarded_.erase(uid);
        tensors_[uid] = std::move(tensor);
    }
    void add(int64_t uid, GuardedTensor tensor) {
        tensors_[uid] = tensor.tensor;
        guarded_[uid] = std::move(tensor);
    }
    bool contains(int64_t uid) const { return tensors_.count(uid) != 0; }
    const std::shared_ptr<ITensor>& at(int64_t uid) const {
        const auto found = tensors_.find(uid);
        if (found == tensors_.end()) {
            invalid("[bundle] uid got ", uid, ", expected that of a tensor in memory");
        }
        return found->second;
    }
    const std::map<int64_t, std::shared_ptr<ITensor>>& tensors() const { return tensors_; }

    // What goes into the variant pack.
    void* address(int64_t uid, bool on_device) const { return memory_of(uid).address(on_device); }
    // The memory with its guards; of a tensor without them its own.
    GuardedTensor memory_of(int64_t uid) const {
        const auto found = guarded_.find(uid);
        return found == guarded_.end() ? GuardedTensor{at(uid), at(uid), 0} : found->second;
    }

    // Every element that iteration visits; the same for the same uid, seed and range. No two
    // tensors get the same values. Types without negative values take the range's other half.
    void randomize_tensor(int64_t uid, uint64_t seed, double low, double high) const {
        ITensor& tensor = *at(uid);
        const bool is_unsigned =
            tensor.data_type() == DataType::UINT8 || tensor.data_type() == DataType::BOOLEAN;
        const uint64_t of_uid = static_cast<uint64_t>(uid) * 0x9e3779b97f4a7c15ULL;
        tensor.fill_with_random_values(is_unsigned ? std::max(low, 0.0) : low, high, seed ^ of_uid);
    }

private:
    std::map<int64_t, std::shared_ptr<ITensor>> tensors_;
    std::map<int64_t, GuardedTensor> guarded_;
};

}  // namespace raggeddnn::testing
