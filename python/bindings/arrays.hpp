// Arrays of other libraries as memory: NumPy, anything with data_ptr() (PyTorch), any DLPack
// producer, and what has __cuda_array_interface__.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "raggeddnn/backend/execution_plan.hpp"
#include "raggeddnn/tensor/device_memory.hpp"

namespace raggeddnn::python {

struct ArrayInfo {
    void* ptr = nullptr;
    std::vector<int64_t> shape;
    std::vector<int64_t> strides;  // in elements
    DataType data_type = DataType::NOT_SET;
    std::string type_name;     // as the array's library calls it
    std::string device;        // "cpu", "cuda", "hip"
    int64_t extent_bytes = 0;  // from ptr to the end of the last element addressed
    bool is_read_only = false;
    bool is_any_gpu = false;  // "cuda" may mean HIP's memory, as in PyTorch for AMD
    py::object keep_alive;    // holds the memory for the call

    bool is_on(const std::string& where) const {
        return device == where || (is_any_gpu && device == "cuda" && where == "hip");
    }
};

// The stream on which memory is going to be used; nothing where it is only looked at.
using UsedOn = std::optional<uintptr_t>;

// What `object` is as an array; nothing if it is none. Throws INVALID_VALUE, naming `what`, for an
// array that cannot be taken (negative strides, an exporter that refuses). Of an exporter that says
// on which stream it works, what it has started so far comes before later work on `stream`.
std::optional<ArrayInfo> read_array(py::handle object, const std::string& what, UsedOn stream = {});

// The data type that array libraries call so; NOT_SET for a name that none here has.
DataType type_of_name(const std::string& name);

// A variant pack from Python: {TensorAttributes or uid: array, int pointer, or number}.
class PackReader {
public:
    PackReader(const ExecutionPlan& plan, const py::dict& pack, UsedOn stream);
    const std::vector<Binding>& bindings() const { return bindings_; }

private:
    void add(const PlanTensor& tensor, py::handle value);
    void add_scalar(const PlanTensor& tensor, py::handle value);
    void add_array(const PlanTensor& tensor, ArrayInfo array, const std::string& what);

    const ExecutionPlan& plan_;
    UsedOn stream_;
    std::vector<std::pair<py::object, py::object>> entries_;  // of the pack, kept for the call
    std::vector<Binding> bindings_;
    std::vector<py::object> keep_alive_;
    // Memory of numbers given for runtime scalars; never moves while it grows.
    struct Scalar {
        alignas(8) unsigned char bytes[8];
    };
    std::vector<std::unique_ptr<Scalar>> scalars_;
};

// What one execute gets from Python.
struct ExecuteCall {
    const py::dict& pack;
    py::handle workspace;
    const std::optional<py::dict>& overrides;
};

void execute_with_handle(const ExecutionPlan& plan, hipdnnHandle* handle, const ExecuteCall& call);

// The uid that a key of a variant pack or of overrides means; throws for anything else.
int64_t uid_of_key(py::handle key, const char* where);

// An int, what Python takes for one, or a pointer object of cuda-bindings or hip-python, as an
// address; throws INVALID_VALUE, naming `what`.
void* address_of(py::handle object, const std::string& what);

struct Memory {
    void* ptr = nullptr;
    int64_t extent_bytes = -1;  // unknown
    py::object keep_alive;      // holds the memory for the call
};

// Memory from None, an address, or an array, which must be on the device.
Memory memory_of(py::handle object, const std::string& what, const std::string& device,
                 UsedOn stream);

// The GPU runtime of this process, looked for among Python's packages, too. NOT_SUPPORTED without.
const DeviceMemoryApi& gpu_runtime();

}  // namespace raggeddnn::python
