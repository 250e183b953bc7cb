// The GPU engine's kernels on emulated waves, on host memory (or a fake device's): what instances/
// is to a GPU build.
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "attention/clear.hpp"
#include "attention/forward.hpp"
#include "attention/plain_forward.hpp"
#include "fake_device.hpp"
#include "instances/backward_passes.hpp"
#include "instances/plain_passes.hpp"
#include "instances/rows.hpp"
#include "instances/shapes.hpp"
#include "wave.hpp"

namespace raggeddnn::hip {

namespace {

#if defined(RAGGEDDNN_EMULATE_HOPPER)
using EmulatedArch = Hopper;
constexpr int LANES_TOGETHER = 32;
#elif defined(RAGGEDDNN_EMULATE_NVIDIA)
using EmulatedArch = Nvidia;
constexpr int LANES_TOGETHER = 32;
#elif defined(RAGGEDDNN_EMULATE_CDNA)
using EmulatedArch = Cdna;
constexpr int LANES_TOGETHER = 64;
#elif defined(RAGGEDDNN_EMULATE_RDNA3)
using EmulatedArch = Rdna3;
constexpr int LANES_TOGETHER = 32;
#else
using EmulatedArch = Rdna4;
constexpr int LANES_TOGETHER = 32;
#endif

// Several blocks, one after another, as a GPU may run them.
constexpr int BLOCKS = 3;

uint64_t next_seed() {
    static uint64_t seed = 1;
    return ++seed;
}

template <class Pass>
void run_schedule(const typename Pass::Params& params, const Schedule& schedule) {
    ScheduleShared shared;
    emulation::Block(SCHEDULE_THREADS, LANES_TOGETHER, next_seed()).run([&] {
        make_schedule<Pass>(params, schedule, shared);
    });
}

void run_clearing(const AttentionParams& params) {
    constexpr int CLEARING = 2;
    for (int i = 0; i < CLEARING; ++i) {
        int32_t shared = -1;
        emulation::Block(SCHEDULE_THREADS, LANES_TOGETHER, next_seed()).run([&] {
            clear_outputs(params, i, CLEARING, shared);
        });
    }
}

template <class Pass>
void run_pass(const typename Pass::Params& params) {
    const auto shared = std::make_unique<typename Pass::Shared>();
    for (int i = 0; i < BLOCKS; ++i) {
        // Shared memory holds what the last kernel left: NaN and negative numbers, or large ones.
        std::memset(static_cast<void*>(shared.get()), i % 2 == 0 ? 0xff : 0x7f, sizeof(*shared));
        emulation::Block(Pass::THREADS, LANES_TOGETHER, next_seed()).run([&] {
            Pass::run(params, *shared);
        });
    }
}

template <class Pass>
const char* launch_forward(const ForwardParams& params, void* stream) {
    return emulation::FakeDevice::get().enqueue(stream, [params] {
        run_clearing(params);
        run_schedule<Pass>(params, params.schedule);
        run_pass<Pass>(params);
    });
}

template <class Element, int WIDTH>
void add_forward_row(std::vector<ForwardKernel>& rows) {
    if constexpr (requires { ForwardShape<EmulatedArch, WIDTH>::REASON; }) {
        using Pass = Forward<EmulatedArch, Element, ForwardShape<EmulatedArch, WIDTH>>;
        rows.push_back({facts_of<Pass>(), launch_forward<Pass>});
    }
}

template <class Element>
void add_forward_rows(std::vector<ForwardKernel>& rows) {
    add_forward_row<Element, 64>(rows);
    add_forward_row<Element, 96>(rows);
    add_forward_row<Element, 128>(rows);
    add_forward_row<Element, 192>(rows);
    add_forward_row<Element, 256>(rows);
}

template <class Passes>
const char* launch_backward(const BackwardParams& params, void* stream) {
    return emulation::FakeDevice::get().enqueue(stream, [params] {
        run_clearing(params);
        run_schedule<typename Passes::Queries>(params, params.schedule_q);
        run_schedule<typename Passes::Keys>(params, params.schedule_k);
        run_pass<typename Passes::Queries>(params);
        if constexpr (!std::is_void_v<typename Passes::Values>) {
            run_pass<typename Passes::Values>(params);
        }
        run_pass<typename Passes::Keys>(params);
    });
}

template <class Element, int WIDTH>
void add_backward_row(std::vector<BackwardKernel>& rows) {
    if constexpr (requires { BackwardShape<EmulatedArch, WIDTH>::REASON; }) {
        using Passes = BackwardPasses<Element, EmulatedArch, WIDTH>;
        rows.push_back(backward_facts<Passes>(launch_backward<Passes>));
    }
}

template <class Element>
void add_backward_rows(std::vector<BackwardKernel>& rows) {
    add_backward_row<Element, 64>(rows);
    add_backward_row<Element, 96>(rows);
    add_backward_row<Element, 128>(rows);
    add_backward_row<Element, 192>(rows);
    add_backward_row<Element, 256>(rows);
}

template <class Element, int WIDTH>
void add_plain_forward_row(std::vector<ForwardKernel>& rows) {
    using Pass = PlainForward<EmulatedArch, Element, PlainShape<WIDTH>>;
    rows.push_back({facts_of<Pass>(), launch_forward<Pass>});
}

template <class Element>
void add_plain_forward_rows(std::vector<ForwardKernel>& rows) {
    add_plain_forward_row<Element, 64>(rows);
    add_plain_forward_row<Element, 128>(rows);
    add_plain_forward_row<Element, 256>(rows);
}

template <class Passes>
const char* launch_plain_backward(const BackwardParams& params, void* stream) {
    if (const char* error = launch_backward<Passes>(params, stream)) return error;
    return emulation::FakeDevice::get().enqueue(stream, [params] {
        *params.next_bias_tile = 0;
        if (params.d_bias.data) run_pass<typename Passes::Bias>(params);
    });
}

template <class Element, int WIDTH>
void add_plain_backward_row(std::vector<BackwardKernel>& rows) {
    using Passes = PlainBackwardPasses<Element, EmulatedArch, WIDTH>;
    rows.push_back(backward_facts<Passes>(launch_plain_backward<Passes>));
}

template <class Element>
void add_plain_backward_rows(std::vector<BackwardKernel>& rows) {
    add_plain_backward_row<Element, 64>(rows);
    add_plain_backward_row<Element, 128>(rows);
    add_plain_backward_row<Element, 256>(rows);
}

}  // namespace

ForwardRows forward_kernels() {
    static const std::vector<ForwardKernel> kernels = [] {
        std::vector<ForwardKernel> rows;
        add_forward_rows<Bfloat16>(rows);
        add_forward_rows<Float16>(rows);
        add_plain_forward_rows<Float32>(rows);
        add_plain_forward_rows<Bfloat16>(rows);
        add_plain_forward_rows<Float16>(rows);
        return rows;
    }();
    return kernels;
}

BackwardRows backward_kernels() {
    static const std::vector<BackwardKernel> kernels = [] {
        std::vector<BackwardKernel> rows;
        add_backward_rows<Bfloat16>(rows);
        add_backward_rows<Float16>(rows);
        add_plain_backward_rows<Float32>(rows);
        add_plain_backward_rows<Bfloat16>(rows);
        add_plain_backward_rows<Float16>(rows);
        return rows;
    }();
    return kernels;
}

bool is_device_usable(std::string& why) {
    why = emulation::FakeDevice::get().fault();
    return why.empty();
}
const char* device_arch() { return EmulatedArch::NAME; }
std::string device_architecture() { return std::string("emulated ") + EmulatedArch::NAME; }
const char* read_back(void* to, const void* from, size_t bytes, void* stream) {
    const char* error =
        emulation::FakeDevice::get().enqueue(stream, [=] { std::memcpy(to, from, bytes); });
    return error ? error : emulation::FakeDevice::get().wait(stream);
}
const char* device_kind() { return emulation::FakeDevice::get().kind(); }
const char* engine_name() { return RAGGEDDNN_EMULATED_ENGINE; }
int engine_priority() { return -1000; }  // by name only

}  // namespace raggeddnn::hip
