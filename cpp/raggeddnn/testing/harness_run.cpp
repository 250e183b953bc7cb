// How the harness executes: all that a plan reads and writes brought to where the plan wants it, on
// a device by a stream of its own, and once or in several threads.
#include <atomic>
#include <exception>
#include <latch>
#include <thread>
#include <utility>

#include "raggeddnn/backend/handle.hpp"
#include "raggeddnn/testing/fp_environment.hpp"
#include "raggeddnn/testing/harness.hpp"

namespace raggeddnn::testing {

namespace {

constexpr const char* HOST = "cpu";
constexpr size_t WORKSPACE_GUARD = 256;  // bytes on both sides

void* address_of(TensorAttributes::pass_by_values_t& value) {
    return std::visit([](auto& held) -> void* { return &held; }, value);
}

// This thread's handle, which others use as well, has its stream back afterwards.
class StreamOfHandle {
public:
    StreamOfHandle(hipdnnHandle& handle, void* stream) : handle_(handle), before_(handle.stream()) {
        handle.set_stream(stream);
    }
    ~StreamOfHandle() { handle_.set_stream(before_); }
    StreamOfHandle(const StreamOfHandle&) = delete;
    StreamOfHandle& operator=(const StreamOfHandle&) = delete;

private:
    hipdnnHandle& handle_;
    void* before_;
};

// The first of what the threads threw.
void rethrow_first(const std::vector<std::exception_ptr>& errors) {
    for (const std::exception_ptr& error : errors) {
        if (error) std::rethrow_exception(error);
    }
}

}  // namespace

// Fills the outputs and the workspace anew, and brings everything to where the plan reads it.
IntegrationGraphVerificationHarness::Run IntegrationGraphVerificationHarness::prepare(
    const ExecutionPlan& plan, const GraphTensorBundle& bundle) {
    const bool on_device = plan.device() != HOST;
    reset_outputs(bundle);
    Run made;
    for (const auto& [uid, tensor] : bundle.tensors()) {
        made.pack.push_back(
            {uid, bundle.address(uid, on_device),
             static_cast<int64_t>(tensor->element_space() * tensor->element_size())});
    }
    for (auto& [uid, value] : inputs_.scalars) made.pack.push_back({uid, address_of(value)});
    if (plan.workspace_size() == 0) return made;
    const Tensor<uint8_t> model({static_cast<int64_t>(plan.workspace_size())});
    made.workspace = make_guarded_tensor(model, WORKSPACE_GUARD);
    made.workspace.memory->fill_with_sentinel_value();
    made.workspace_address = made.workspace.address(on_device);
    return made;
}

void IntegrationGraphVerificationHarness::run_reference(const GraphTensorBundle& bundle) {
    const Run run = prepare(*reference_plan_, bundle);
    reference_plan_->execute(hipdnnHandle::of_thread(), run.pack, run.workspace_address);
}

// Waits till it has run; was the environment of floating point left changed?
bool IntegrationGraphVerificationHarness::execute_once(const ExecutionPlan& plan, const Run& run) {
    hipdnnHandle& handle = hipdnnHandle::of_thread(plan.device());
    const FpEnvironment environment;
    if (plan.device() == HOST) {
        plan.execute(handle, run.pack, run.workspace_address);
    } else {
        // Of its own, so that work which the engine starts elsewhere is not waited for by chance.
        const DeviceStream stream;
        const StreamOfHandle set(handle, stream.get());
        plan.execute(handle, run.pack, run.workspace_address);
        stream.synchronize();
    }
    return environment.restore();
}

void IntegrationGraphVerificationHarness::run_engine(const Bundles& bundles,
                                                     VerificationReport& report) {
    std::vector<Run> runs;
    for (const GraphTensorBundle* bundle : bundles) runs.push_back(prepare(*engine_plan_, *bundle));
    if (runs.size() == 1) {
        report.changed_fp_environment = execute_once(*engine_plan_, runs.front());
    } else {
        run_engine_threads(runs, report);
    }
    for (const Run& run : runs) {
        OutputReport found;
        if (run.workspace_address) find_overwritten(run.workspace, found);
        if (found.overwritten == 0 || report.overwritten_workspace > 0) continue;
        report.workspace_size = engine_plan_->workspace_size();
        report.overwritten_workspace = found.overwritten;
        report.first_overwritten_workspace = found.first_overwritten;
    }
}

void IntegrationGraphVerificationHarness::run_engine_threads(const std::vector<Run>& runs,
                                                             VerificationReport& report) const {
    std::latch together(static_cast<ptrdiff_t>(runs.size()));
    std::vector<std::exception_ptr> errors(runs.size());
    std::atomic<bool> is_changed = false;
    std::vector<std::thread> threads;
    for (size_t i = 0; i < runs.size(); ++i) {
        threads.emplace_back([&, i] {
            together.arrive_and_wait();
            try {
                if (execute_once(*engine_plan_, runs[i])) is_changed = true;
            } catch (...) {
                errors[i] = std::current_exception();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    rethrow_first(errors);
    report.changed_fp_environment = is_changed;
}

}  // namespace raggeddnn::testing
