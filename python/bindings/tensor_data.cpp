#include "tensor_data.hpp"

#include "arrays.hpp"

namespace raggeddnn::python {

namespace {

// Copies come after the work of streams that the default stream waits for; others it must be told.
bool is_awaited_by_copies(int64_t stream) {
    return stream == 0 || stream == dlpack::CUDA_PER_THREAD_STREAM;
}

}  // namespace

ITensor& TensorData::on_host() const {
    if (!gpu || !gpu->is_shared) return *tensor;
    if (!is_awaited_by_copies(gpu->stream)) gpu_runtime().synchronize_device();
    tensor->raw_device_data();  // the newest values are there
    return *tensor;
}

ITensor& TensorData::writable() const {
    if (is_read_only) {
        invalid("[tensor] got a request to write over a read-only array, expected a writable one");
    }
    ITensor& found = on_host();
    found.raw_host_data();
    if (gpu) gpu->is_shared = false;
    return found;
}

void* TensorData::on_gpu(int64_t stream) const {
    if (gpu->is_shared && gpu->stream != stream && stream != dlpack::NO_SYNCHRONIZATION) {
        gpu_runtime().synchronize_device();
    }
    gpu->is_shared = true;
    gpu->stream = stream;
    return tensor->raw_device_data();
}

std::string TensorData::device() const {
    if (!gpu) return "cpu";
    return gpu->device.type == dlpack::ROCM ? "hip" : "cuda";
}

}  // namespace raggeddnn::python
