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
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "raggeddnn/backend/execution_plan.hpp"
#include "raggeddnn/graph/tensor_attributes.hpp"
#include "raggeddnn/schema/graph_view.hpp"
#include "raggeddnn/tensor/compare.hpp"
#include "raggeddnn/testing/graph_tensor_bundle.hpp"

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
    std::string device = "cpu";  // of the engine under test
    std::map<std::string, KnobValue> knobs = {};
    HostScalars scalars = {};
    uint64_t seed = 0;  // of inputs that were not supplied
    double low = -1;    // their range; integers lie between, inclusive
    double high = 1;
    // Memory of each ragged output past the last offset, in elements; nothing may write there.
    size_t guard_elements = 0;
};

struct RAGGEDDNN_API OutputReport {
    int64_t uid = 0;
    std::string name;
    SentinelReport comparison;
    // Elements of the memory that no index reaches (past the last offset, between strides), yet
    // the engine wrote to them.
    size_t overwritten = 0;
    int64_t first_overwritten = -1;  // its position in memory, in elements
    double overwritten_value = 0;

    bool passed() const { return comparison.passed() && overwritten == 0; }
    std::string to_string() const;
};

struct RAGGEDDNN_API VerificationReport {
    std::string engine;
    std::vector<OutputReport> outputs;        // in the order of the graph's tensors
    std::vector<std::string> changed_inputs;  // that the engine wrote to

    bool passed() const;
    std::string to_string() const;  // a line for each output
};

class RAGGEDDNN_API IntegrationGraphVerificationHarness {
public:
    // Sets both bundles up: checks what was supplied, allocates the rest, and fills it: outputs
    // with the sentinel of their data type, everything else with random values. Throws
    // INVALID_VALUE where a ragged offset was not supplied, what was supplied is no tensor of the
    // graph or does not fit it, or a runtime scalar has neither a value nor a default.
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

    const GraphTensorBundle& engine_bundle() const { return engine_; }
    const GraphTensorBundle& reference_bundle() const { return reference_; }
    // In the order of the graph's tensors.
    const std::vector<int64_t>& output_uids() const { return output_uids_; }

private:
    void check_supplied() const;
    void check_scalars() const;
    void find_outputs();
    void allocate(GraphTensorBundle& bundle) const;
    void initialize(const GraphTensorBundle& bundle) const;
    void reset_outputs(const GraphTensorBundle& bundle) const;
    void run(const ExecutionPlan& plan, const GraphTensorBundle& bundle, hipdnnHandle& handle);
    Tolerance own_tolerance(int64_t uid, const GraphTensorBundle& moved) const;
    GraphTensorBundle with_moved_inputs() const;
    std::map<int64_t, uint64_t> input_sums() const;  // checksums of memory, by uid
    OutputReport compare(int64_t uid, const Tolerance& tolerance) const;

    std::shared_ptr<const schema::GraphBlob> blob_;
    schema::GraphView graph_;
    PreSuppliedInputs supplied_;
    HarnessOptions options_;
    std::vector<int64_t> output_uids_;
    GraphTensorBundle engine_;
    GraphTensorBundle reference_;
    std::shared_ptr<const ExecutionPlan> engine_plan_;
    std::shared_ptr<const ExecutionPlan> reference_plan_;
};

}  // namespace raggeddnn::testing
