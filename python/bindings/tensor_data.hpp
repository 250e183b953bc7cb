// A tensor of the data SDK as Python holds it, for the files that bind what takes and gives one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "raggeddnn/tensor/compare.hpp"
#include "raggeddnn/tensor/dlpack.hpp"

namespace raggeddnn::python {

// Where a tensor's elements are for whoever is not of the data SDK, if on a GPU.
struct DeviceSide {
    dlpack::Device device;
    // Others may read and write the memory there, by work on this stream: an address, or
    // dlpack::NO_SYNCHRONIZATION for one that is not known.
    bool is_shared = false;
    int64_t stream = 0;
};

struct TensorData {
    std::shared_ptr<ITensor> tensor;
    std::vector<py::object> keep_alive = {};  // whose memory it borrows
    bool is_read_only = false;
    mutable std::optional<DeviceSide> gpu = std::nullopt;

    // For reading, with what was written on a GPU.
    ITensor& on_host() const;
    // For writing; the GPU gets the elements when the memory there is next asked for.
    ITensor& writable() const;
    // The memory on the GPU, for work on the stream (as DeviceSide has it).
    void* on_gpu(int64_t stream) const;
    std::string device() const;  // "cpu", "cuda", "hip"
};

py::tuple to_tuple(const std::vector<int64_t>& values);
py::dict to_dict(const SentinelReport& report);

}  // namespace raggeddnn::python
