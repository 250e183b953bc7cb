// Device and pinned memory of the data SDK, by whatever GPU runtime there is. Without one every
// request says so; with an argument there must be one, of that name.
#include <cstdlib>
#include <cstring>

#include "tensor_check.hpp"

using namespace raggeddnn;
using namespace raggeddnn::tensor_check;

namespace {

void check_absent(const Exception& reason) {
    const std::string text = reason.what();
    check(reason.code() == ErrorCode::NOT_SUPPORTED, "absent: NOT_SUPPORTED");
    check(text.find("HIP (") != std::string::npos && text.find("CUDA (") != std::string::npos,
          "absent: both runtimes are named in " + text);
    constexpr auto code = ErrorCode::NOT_SUPPORTED;
    Tensor<float> tensor({4});
    check_throws(code, "no GPU runtime", [&] { tensor.raw_device_data(); }, "device data");
    check_throws(code, "no GPU runtime", [] { PinnedTensor<float>({4}); }, "pinned memory");
    tensor.fill_with_value(3);
    check_equal(tensor(3), 3.0F, "the host side works on");
    RaggedTensor<float> ragged({2, 2, 2}, {4, 2, 1}, BSHD_SEQ_AXIS, make_aux<int32_t>({0, 2, 4}));
    check_throws(code, "no GPU runtime", [&] { ragged.raw_device_data(); }, "ragged device data");
}

void write_to_device(void* to, float value) {
    const float values[4] = {value, value, value, value};
    DeviceMemoryApi::get().copy_to_device(to, values, sizeof(values));
}

template <class AnyTensor>
void check_migration(AnyTensor& tensor) {
    tensor.fill_with_value(5);
    void* device = tensor.raw_device_data();
    check(device != std::as_const(tensor).raw_host_data(), "two buffers");
    float back[4] = {};
    DeviceMemoryApi::get().copy_to_host(back, device, sizeof(back));
    check(back[3] == 5, "host values reach the device");

    device = tensor.raw_device_data();
    write_to_device(device, 6);
    check_equal(*static_cast<const float*>(std::as_const(tensor).raw_host_data()), 6.0F,
                "values of the device reach the host");
    *static_cast<float*>(tensor.raw_host_data()) = 7;
    check(tensor.raw_device_data() == device, "the device buffer stays where it is");
    DeviceMemoryApi::get().copy_to_host(back, device, sizeof(back));
    check(back[0] == 7 && back[1] == 6, "the host's newer value goes to the device");
}

void check_aux_on_device() {
    const auto aux = make_aux<int32_t>({0, 1, 2});
    const int32_t offsets[3] = {0, 2, 4};
    DeviceMemoryApi::get().copy_to_device(aux->raw_device_data(), offsets, sizeof(offsets));
    const RaggedTensor<float> tensor({2, 2, 2}, {4, 2, 1}, BSHD_SEQ_AXIS, aux);
    check_equal(tensor.element_count(), 4U, "offsets written on the device are read");
}

void check_present() {
    Tensor<float> dense({2, 2});
    check_migration(dense);
    PinnedTensor<float> pinned({2, 2});
    check_equal(std::as_const(pinned)(1, 1), 0.0F, "pinned memory is zeroed");
    check_migration(pinned);
    RaggedTensor<float> ragged({2, 2, 2}, {4, 2, 1}, BSHD_SEQ_AXIS, make_aux<int32_t>({0, 2, 4}));
    check_migration(ragged);
    RaggedTensor<float, PinnedHostAllocator<float>> pinned_ragged(
        {2, 2, 2}, {4, 2, 1}, BSHD_SEQ_AXIS, make_aux<int64_t>({0, 2, 4}));
    check_migration(pinned_ragged);
    Tensor<float> empty({0});
    check(empty.raw_device_data() == nullptr, "no elements, no device memory");
    check_aux_on_device();
}

// What the runtime is told to fail at (see tests/plugins/fake_gpu_runtime.c).
void check_failure(const std::string& function) {
    Tensor<float> tensor({4});
    if (function == "hipMalloc") {
        check_throws(
            ErrorCode::ALLOC_FAILED, "device memory: fake failure",
            [&] { tensor.raw_device_data(); }, function);
    } else if (function == "hipHostMalloc") {
        check_throws(
            ErrorCode::ALLOC_FAILED, "pinned host memory: fake failure",
            [] { PinnedTensor<float>({4}); }, function);
    } else {
        try {
            tensor.raw_device_data();
            check(false, function + ": threw nothing");
        } catch (const Exception& e) {
            check(e.code() == ErrorCode::EXECUTION_FAILED, function + ": EXECUTION_FAILED");
        }
    }
}

}  // namespace

int main(int count, char** arguments) {
    const char* failing = std::getenv("FAKE_GPU_FAILS");
    try {
        const DeviceMemoryApi& api = DeviceMemoryApi::get();
        if (count > 1) check_equal(std::string(api.name()), arguments[1], "the runtime");
        failing ? check_failure(failing) : check_present();
    } catch (const Exception& e) {
        if (count > 1 && std::string(arguments[1]) != "none") throw;
        check_absent(e);
    }
    return finish();
}
