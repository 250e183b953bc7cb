// Where emulated kernels run: at once on host memory, or, with EMULATED_DEVICE ("cuda" or "hip") in
// the environment, on the streams and in the memory of plugins/fake_gpu_runtime.c, which then is
// that runtime's library.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

namespace raggeddnn::emulation {

class FakeDevice {
public:
    static const FakeDevice& get() {
        static const FakeDevice device;
        return device;
    }

    const char* kind() const { return kind_.c_str(); }
    // Empty where kernels can run.
    const std::string& fault() const { return fault_; }

    // Runs the work when its turn comes. Returns null, or what is wrong.
    const char* enqueue(void* stream, std::function<void()> work) const {
        if (kind_ == "cpu") {
            work();
            return nullptr;
        }
        auto owned = std::make_unique<std::function<void()>>(std::move(work));
        const auto run = [](void* argument) {
            const std::unique_ptr<std::function<void()>> mine(
                static_cast<std::function<void()>*>(argument));
            (*mine)();
        };
        if (enqueue_(stream, run, owned.get()) != 0) return "the fake runtime takes no work";
        owned.release();
        return nullptr;
    }

    // Until the stream's work is done. Returns null, or what is wrong.
    const char* wait(void* stream) const {
        return !synchronize_ || synchronize_(stream) == 0 ? nullptr : "the fake runtime fails";
    }

private:
    FakeDevice() {
        const char* kind = std::getenv("EMULATED_DEVICE");
        if (!kind) return;
        kind_ = kind;
        const std::string file = kind_ == "hip" ? "libamdhip64.so" : "libcudart.so";
        if (void* library = dlopen(file.c_str(), RTLD_NOW)) {
            enqueue_ = reinterpret_cast<decltype(enqueue_)>(dlsym(library, "fake_gpu_enqueue"));
            synchronize_ = reinterpret_cast<decltype(synchronize_)>(
                dlsym(library, (kind_ + "StreamSynchronize").c_str()));
        }
        if (!enqueue_) fault_ = file + " is not the fake runtime";
    }

    std::string kind_ = "cpu";
    std::string fault_;
    int (*enqueue_)(void*, void (*)(void*), void*) = nullptr;
    int (*synchronize_)(void*) = nullptr;
};

}  // namespace raggeddnn::emulation
