// A tensor of the data SDK as Python holds it, for the files that bind what takes and gives one.
#pragma once

#include <memory>
#include <vector>

#include "bindings.hpp"
#include "raggeddnn/tensor/compare.hpp"

namespace raggeddnn::python {

struct TensorData {
    std::shared_ptr<ITensor> tensor;
    std::vector<py::object> keep_alive = {};  // whose memory it borrows
    bool is_read_only = false;

    ITensor& writable() const {
        if (is_read_only) {
            invalid(
                "[tensor] got a request to write over a read-only array, expected a writable one");
        }
        return *tensor;
    }
};

py::tuple to_tuple(const std::vector<int64_t>& values);
py::dict to_dict(const SentinelReport& report);

}  // namespace raggeddnn::python
