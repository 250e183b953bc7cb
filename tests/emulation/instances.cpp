// The GPU engine's kernels on emulated waves, on host memory (or a fake device's): what instances/
// is to a GPU build.
#include <cstring>
#include <memory>

#include "attention/forward.hpp"
#include "fake_device.hpp"
#include "instances/shapes.hpp"
#include "kernels.hpp"
#include "wave.hpp"

namespace raggeddnn::hip {

namespace {

#if defined(RAGGEDDNN_EMULATE_NVIDIA)
using Arch = Nvidia;
#elif defined(RAGGEDDNN_EMULATE_CDNA)
using Arch = Cdna;
#elif defined(RAGGEDDNN_EMULATE_RDNA3)
using Arch = Rdna3;
#else
using Arch = Rdna4;
#endif

// Several blocks, one after another, as a GPU may run them.
constexpr int BLOCKS = 3;

template <class Element, class Shape>
void run_forward(const ForwardParams& params) {
    using Pass = Forward<Arch, Element, Shape>;
    static uint64_t seed = 1;
    int counts[SCHEDULE_BUCKETS];
    emulation::Block(SCHEDULE_THREADS, Pass::Tile::WAVE, ++seed).run([&] {
        make_schedule<Shape::TILE_ROWS>(params, counts);
    });
    const auto shared = std::make_unique<typename Pass::Shared>();
    for (int i = 0; i < BLOCKS; ++i) {
        // Shared memory holds what the last block left, or NaN.
        std::memset(static_cast<void*>(shared.get()), 0xff, sizeof(*shared));
        emulation::Block(Pass::THREADS, Pass::Tile::WAVE, ++seed).run([&] {
            Pass::run(params, *shared);
        });
    }
}

template <class Element, class Shape>
const char* launch_forward(const ForwardParams& params, void* stream) {
    return emulation::FakeDevice::get().enqueue(stream,
                                                [params] { run_forward<Element, Shape>(params); });
}

template <class Element, int WIDTH>
ForwardKernel row(ElementKind kind) {
    using Shape = ForwardShape<Arch, WIDTH>;
    return {kind,
            WIDTH,
            Shape::TILE_ROWS,
            Shape::BLOCK_KEYS,
            Shape::REASON,
            launch_forward<Element, Shape>};
}

}  // namespace

std::span<const ForwardKernel> forward_kernels() {
    static const ForwardKernel kernels[] = {
        row<Bfloat16, 64>(ElementKind::BFLOAT16),  row<Bfloat16, 128>(ElementKind::BFLOAT16),
        row<Bfloat16, 192>(ElementKind::BFLOAT16), row<Bfloat16, 256>(ElementKind::BFLOAT16),
        row<Float16, 64>(ElementKind::FLOAT16),    row<Float16, 128>(ElementKind::FLOAT16),
        row<Float16, 192>(ElementKind::FLOAT16),   row<Float16, 256>(ElementKind::FLOAT16),
    };
    return kernels;
}

bool is_device_usable(std::string& why) {
    why = emulation::FakeDevice::get().fault();
    return why.empty();
}
const char* device_kind() { return emulation::FakeDevice::get().kind(); }
const char* engine_name() { return RAGGEDDNN_EMULATED_ENGINE; }
int engine_priority() { return -1000; }  // by name only

}  // namespace raggeddnn::hip
