// Runs a graph on an engine and on a reference, over the same inputs, and compares what they wrote
// (ragged-tensor document, 4.11; the host scalars are those of the runtime pass-by-value document,
// section 8, step 6).
//
//     IntegrationGraphVerificationHarness harness(graph.serialize(), {{offsets_uid, offsets}},
//                                                 {.engine = "MY_ENGINE"});
//     const VerificationReport report = harness.verify_graph();
//     if (!report.passed()) std::puts(report.to_string().c_str());
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "raggeddnn/backend/execution_plan.hpp"
#include "raggeddnn/graph/tensor_attributes.hpp"
#include "raggeddnn/schema/graph_view.hpp"
#include "raggeddnn/testing/report.hpp"

namespace raggeddnn::testing {

// Inputs with deliberate values, by uid; both executions see the very same tensor.
using PreSuppliedInputs = std::unordered_map<int64_t, std::shared_ptr<ITensor>>;
// Values of runtime scalars, by uid, of the tensor's data type.
using HostScalars = std::unordered_map<int64_t, TensorAttributes::pass_by_values_t>;
// By the uid of an output; one without an entry gets what the graph's own condition allows.
using Tolerances = std::unordered_map<int64_t, Tolerance>;

struct HarnessOptions {
    std::string engine;  // under test
    std::string reference_engine = "reference";
    // Where the buffers of the engine under test are: "cpu", or the device of the GPU runtime here.
    std::string device = "cpu";
    std::map<std::string, KnobValue> knobs = {};
    HostScalars scalars = {};
    uint64_t seed = 0;  // of inputs that were not supplied
    double low = -1;    // their range; integers lie between, inclusive
    double high = 1;
    // Memory after each output, and at least as much before it, in elements; nothing may write
    // there.
    size_t guard_elements = 0;
};

// Its methods may be called from several threads; they take turns.
class RAGGEDDNN_API IntegrationGraphVerificationHarness {
public:
    // Sets both bundles up: checks what was supplied, allocates the rest, and fills it: outputs
    // with the sentinel of their data type, everything else with random values. Throws
    // INVALID_VALUE where an option is out of range, a ragged offset was not supplied, what was
    // supplied is no tensor of the graph or does not fit it (type, dims, strides, offsets), or a
    // runtime scalar has neither a value nor a default.
    IntegrationGraphVerificationHarness(std::span<const uint8_t> graph,
                                        PreSuppliedInputs pre_supplied_inputs,
                                        HarnessOptions options);

    // Builds the plans once, fills the outputs anew, runs both, and compares by sentinel-skip: an
    // element that the reference did not write is not judged. Throws what the engines throw, so
    // NOT_SUPPORTED with the reason where one refuses the graph.
    //
    // An output without a tolerance may be off by twice what the reference's own result moves by
    // when every real input is moved by one unit in its last place, up or down at random, and
    // 4 * eps(type) of the largest element of its row: a stable algorithm in the type of the
    // inputs does no worse than that.
    VerificationReport verify_graph(const Tolerances& tolerances = {});
    // The same with the engine's plan executed by so many threads at once, each with outputs of its
    // own. Of each output the report shows a thread's that is wrong, if there is one.
    VerificationReport verify_concurrently(size_t threads, const Tolerances& tolerances = {});

    // Sets both bundles up as the constructor does, in other memory, for the plans that there are:
    // what comes next shows whether a plan keeps addresses, offsets or scalars of an execute.
    void change_inputs(PreSuppliedInputs pre_supplied_inputs, HostScalars scalars);

    // The tensors of the last call, shared with the harness.
    GraphTensorBundle engine_bundle() const;
    GraphTensorBundle reference_bundle() const;
    // In the order of the graph's tensors.
    const std::vector<int64_t>& output_uids() const { return output_uids_; }

private:
    // What an execute reads and writes.
    struct Inputs {
        PreSuppliedInputs supplied;
        HostScalars scalars;
        GraphTensorBundle engine;
        GraphTensorBundle reference;
    };
    using Bundles = std::vector<const GraphTensorBundle*>;
    // One execute, ready to start: all its memory is where the plan wants it.
    struct Run {
        std::vector<Binding> pack;
        GuardedTensor workspace;
        void* workspace_address = nullptr;
    };

    void check_options() const;
    void find_outputs();
    void check_supplied(const PreSuppliedInputs& supplied) const;
    void check_fits(const schema::TensorView& attribute, const PreSuppliedInputs& supplied) const;
    void check_scalars(const HostScalars& scalars) const;
    void check_tolerances(const Tolerances& tolerances) const;
    bool is_output(int64_t uid) const;
    Inputs set_up(PreSuppliedInputs supplied, HostScalars scalars) const;
    GraphTensorBundle allocate(const PreSuppliedInputs& supplied) const;
    void add_guarded_outputs(GraphTensorBundle& bundle, const GraphTensorBundle& model) const;
    void reset_outputs(const GraphTensorBundle& bundle) const;
    void build();
    Run prepare(const ExecutionPlan& plan, const GraphTensorBundle& bundle);
    void run_reference(const GraphTensorBundle& bundle);
    static bool execute_once(const ExecutionPlan& plan, const Run& run);
    // Of several bundles each in a thread of its own, all at once.
    void run_engine(const Bundles& bundles, VerificationReport& report);
    void run_engine_threads(const std::vector<Run>& runs, VerificationReport& report) const;
    VerificationReport verify(const Tolerances& tolerances, const Bundles& bundles);
    Tolerance own_tolerance(int64_t uid, const GraphTensorBundle& moved) const;
    GraphTensorBundle with_moved_inputs() const;
    std::map<int64_t, uint64_t> input_sums() const;  // checksums of memory, by uid
    OutputReport compare(int64_t uid, const Tolerance& tolerance,
                         const GraphTensorBundle& bundle) const;

    std::shared_ptr<const schema::GraphBlob> blob_;
    schema::GraphView graph_;
    HarnessOptions options_;
    std::vector<int64_t> output_uids_;
    Inputs inputs_;
    // Kept so that a plan which remembers its addresses shows by its results, not by a crash.
    Inputs previous_;
    bool built_in_changed_environment_ = false;
    std::shared_ptr<const ExecutionPlan> engine_plan_;
    std::shared_ptr<const ExecutionPlan> reference_plan_;
    mutable std::mutex mutex_;
};

}  // namespace raggeddnn::testing
