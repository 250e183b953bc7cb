// The runtime tensors of one execution of a graph, by uid (ragged-tensor document, 4.11.2 and
// 4.11.3).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/tensor/itensor.hpp"

namespace raggeddnn::testing {

// Shared, since an aux is held by the ragged tensors over it, and an input that was supplied
// serves several executions.
class GraphTensorBundle {
public:
    void add(int64_t uid, std::shared_ptr<ITensor> tensor) { tensors_[uid] = std::move(tensor); }
    bool contains(int64_t uid) const { return tensors_.count(uid) != 0; }
    const std::shared_ptr<ITensor>& at(int64_t uid) const {
        const auto found = tensors_.find(uid);
        if (found == tensors_.end()) {
            invalid("[bundle] uid got ", uid, ", expected that of a tensor in memory");
        }
        return found->second;
    }
    const std::map<int64_t, std::shared_ptr<ITensor>>& tensors() const { return tensors_; }

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
};

}  // namespace raggeddnn::testing
