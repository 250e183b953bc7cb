// The frontend: builds a graph of operations over tensors, checks it, and turns it into the wire's
// object tree. It knows no engine: `build`, `execute`, `explain` and the serialized forms are
// defined in the backend (backend/graph_build.cpp), which this header only names.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "raggeddnn/graph/ops/batchnorm.hpp"
#include "raggeddnn/graph/ops/linear.hpp"
#include "raggeddnn/graph/ops/norm.hpp"
#include "raggeddnn/graph/ops/pointwise.hpp"
#include "raggeddnn/graph/ops/sdpa.hpp"
#include "raggeddnn/graph/tensor_attributes.hpp"
#include "raggeddnn/schema/graph_generated.h"

// A backend handle: device, stream, and the plugins' own handles. Null means the default one.
struct hipdnnHandle;
using hipdnnHandle_t = hipdnnHandle*;

namespace raggeddnn {

class ExecutionPlan;
struct BuildOptions;
struct Verdict;

namespace schema {
class GraphBlob;
}

namespace graph_ops {
struct InferContext;
}

namespace plugin {
struct ApiVersion;
}

// A tensor that a node reads or writes, and how its uid gets into the node's table.
struct TensorUse {
    std::string role;
    TensorPtr tensor;
    std::function<void(schema::NodeT&, int64_t uid)> bind;
};

struct OpNode {
    schema::NodeT table;
    std::vector<TensorUse> uses;
    std::function<void(schema::NodeT&, const graph_ops::InferContext&)> infer;
};

class RAGGEDDNN_API Graph {
public:
    Graph();
    ~Graph();
    Graph(Graph&&) noexcept;
    Graph& operator=(Graph&&) noexcept;

    Graph& set_name(std::string name);
    Graph& set_io_data_type(DataType type);  // for tensors of the variant pack without one
    Graph& set_intermediate_data_type(DataType type);  // for virtual tensors without one
    Graph& set_compute_data_type(DataType type);
    // Asks for an engine by its id; taken when it applies.
    Graph& set_preferred_engine_id(std::optional<int64_t> id);
    // Lets a pack entry override a runtime default; off, such an entry is inert.
    Graph& set_runtime_default_override(bool value);
    // Lets every execute give other dims and strides.
    Graph& set_override_shape_enabled(bool value);
    const std::string& get_name() const { return table_.name; }
    bool get_runtime_default_override() const { return table_.is_runtime_default_override_enabled; }
    bool get_override_shape_enabled() const { return table_.is_override_shape_enabled; }
    DataType get_io_data_type() const;
    DataType get_intermediate_data_type() const;
    DataType get_compute_data_type() const;

    // Adds a copy, or the object itself.
    TensorPtr tensor(const TensorAttributes& attributes);
    TensorPtr tensor(TensorPtr attributes);
    // A scalar and its state; a constant is also `tensor(TensorAttributes(v))`.
    template <class T>
        requires TensorAttributes::is_scalar<T>
    TensorPtr tensor(const T& scalar, ScalarType type) {
        return tensor(TensorAttributes(scalar, type));
    }

    // Scaled dot-product attention: o and, when generate_stats is set, stats (else null). q
    // [B,Hq,Sq,D], k [B,Hk,Skv,D], v [B,Hv,Skv,Dv], o [B,Hq,Sq,Dv], stats [B,Hq,Sq,1].
    std::array<TensorPtr, 2> sdpa(TensorPtr q, TensorPtr k, TensorPtr v, SdpaAttributes attributes);

    // Its gradients dq, dk, dv and, when generate_dbias is set, dbias (else null). o and stats are
    // what the forward pass wrote, d_o is the gradient of o. A gradient has the dims of its
    // operand; unless it is given strides it lies as its operand does, ragged offset included.
    std::array<TensorPtr, 4> sdpa_backward(TensorPtr q, TensorPtr k, TensorPtr v, TensorPtr o,
                                           TensorPtr d_o, TensorPtr stats,
                                           SdpaBackwardAttributes attributes);

    // Elementwise; operands broadcast, pass-by-value scalars too. b and c where the mode takes
    // them.
    TensorPtr pointwise(TensorPtr a, TensorPtr b, TensorPtr c, PointwiseAttributes attributes);
    TensorPtr pointwise(TensorPtr a, TensorPtr b, PointwiseAttributes attributes) {
        return pointwise(std::move(a), std::move(b), nullptr, std::move(attributes));
    }
    TensorPtr pointwise(TensorPtr a, PointwiseAttributes attributes) {
        return pointwise(std::move(a), nullptr, nullptr, std::move(attributes));
    }
    // [..., M, K] by [..., K, N].
    TensorPtr matmul(TensorPtr a, TensorPtr b, MatmulAttributes attributes);
    // Over the axes in which the result's dims are 1: all, unless its set_dim says otherwise.
    TensorPtr reduction(TensorPtr x, ReductionAttributes attributes);

    // Normalizes over the axes that scale spans. y and, in TRAINING, inv_rms (else null).
    std::array<TensorPtr, 2> rmsnorm(TensorPtr x, TensorPtr scale, RMSNormAttributes attributes);
    // dx, dscale and, where asked for, dbias (else null).
    std::array<TensorPtr, 3> rmsnorm_backward(TensorPtr dy, TensorPtr x, TensorPtr scale,
                                              TensorPtr inv_rms,
                                              RMSNormBackwardAttributes attributes);
    // y and, in TRAINING, mean and inv_variance (else null).
    std::array<TensorPtr, 3> layernorm(TensorPtr x, TensorPtr scale, TensorPtr bias,
                                       LayernormAttributes attributes);
    // dx, dscale, dbias.
    std::array<TensorPtr, 3> layernorm_backward(TensorPtr dy, TensorPtr x, TensorPtr scale,
                                                LayernormBackwardAttributes attributes);

    // x [N, C, ...], everything else per channel [1, C, 1, ...]. y, mean, inv_variance and, with
    // previous running statistics, the next running mean and variance (else null).
    std::array<TensorPtr, 5> batchnorm(TensorPtr x, TensorPtr scale, TensorPtr bias,
                                       BatchnormAttributes attributes);
    TensorPtr batchnorm_inference(TensorPtr x, TensorPtr mean, TensorPtr inv_variance,
                                  TensorPtr scale, TensorPtr bias,
                                  BatchnormInferenceAttributes attributes);
    TensorPtr batchnorm_inference_variance_ext(TensorPtr x, TensorPtr mean, TensorPtr variance,
                                               TensorPtr scale, TensorPtr bias,
                                               BatchnormInferenceAttributesVarianceExt attributes);
    // dx, dscale, dbias.
    std::array<TensorPtr, 3> batchnorm_backward(TensorPtr dy, TensorPtr x, TensorPtr scale,
                                                BatchnormBackwardAttributes attributes);

    // For operations of ops/: throws when the graph is final; whether a tensor is of this graph;
    // takes a node whose operands are.
    void refuse_if_final(const char* what) const;
    bool contains(const TensorPtr& tensor) const;
    void add_node(OpNode node);

    // Assigns uids, infers what was left out, and checks everything. What it chose is shown by the
    // tensors, and chosen anew the next time: until the graph is final, even a uid may change.
    Error validate();

    const std::vector<TensorPtr>& tensors() const { return tensors_; }
    const std::vector<OpNode>& nodes() const { return nodes_; }

    // The graph as the wire's object tree, without the stamps that finalizing adds. Validates
    // first; throws raggeddnn::Exception.
    schema::GraphT lower();

    // JSON with hipDNN's keys of the graph as it stands, for people to look at. Nothing is checked
    // and the graph stays as it is: missing uids, and what can be inferred so far, are in the text
    // only. Throws for two tensors with one uid and for an offset of another graph.
    std::string draft_json() const;

    // ---- defined in the backend ----
    // Validates, asks the engines, and keeps the plan of the best one. The graph is final from then
    // on.
    Error build(hipdnnHandle_t handle = nullptr);
    Error build(hipdnnHandle_t handle, const BuildOptions& options);
    // `variant_pack`: uid -> device pointer, or host pointer for a runtime scalar.
    Error execute(hipdnnHandle_t handle, std::unordered_map<int64_t, void*>& variant_pack,
                  void* workspace) const;
    // The same with other shapes, for a graph with overridable ones: `override_uids` in parallel.
    Error execute(hipdnnHandle_t handle, std::unordered_map<int64_t, void*>& variant_pack,
                  void* workspace, const std::vector<int64_t>& override_uids,
                  const std::vector<std::vector<int64_t>>& override_shapes,
                  const std::vector<std::vector<int64_t>>& override_strides) const;
    // One verdict per engine, of the graph as it is now; throws.
    std::vector<Verdict> explain(hipdnnHandle_t handle = nullptr);
    const std::shared_ptr<const ExecutionPlan>& plan() const { return plan_; }
    // The final form: stamped bytes, verified; made once, or as they were received. Throws.
    const schema::GraphBlob& finalized();
    // FlatBuffers bytes in hipDNN's wire format; throws.
    std::vector<uint8_t> serialize();
    // A graph that can be built but not changed. Accepts a graph or a graph-and-plan container;
    // throws.
    static Graph deserialize(std::span<const uint8_t> bytes);
    // Likewise from JSON with hipDNN's keys; id and stamps are those of the text. Throws.
    static Graph from_json(std::string_view text);
    plugin::ApiVersion min_required_engine_api_version();
    uint32_t min_reader_version();

private:
    // The final form as it would be now.
    std::shared_ptr<const schema::GraphBlob> preview();
    using Uids = std::unordered_map<const TensorAttributes*, int64_t>;
    // The uids that were given, and the lowest free ones for the rest; throws for a duplicate.
    Uids choose_uids() const;
    // Tensors and nodes with these uids, without what was inferred, and with the types of the graph
    // where a tensor has none.
    schema::GraphT tables(const Uids& uids) const;
    void infer(schema::GraphT& lowered) const;
    // Puts what was inferred into the tensors that their author holds, until the next time.
    void show_inferred(const schema::GraphT& lowered);
    void check_tensors() const;
    static Graph received(std::span<const uint8_t> graph_bytes);
    // Shows a received graph through tensors().
    void adopt(const schema::Graph& received);

    schema::GraphT table_;  // name, types, flags; tensors and nodes are added by lower()
    std::vector<TensorPtr> tensors_;
    std::vector<OpNode> nodes_;
    std::shared_ptr<const schema::GraphBlob> blob_;  // set: the graph is final
    std::shared_ptr<const ExecutionPlan> plan_;
};

}  // namespace raggeddnn
