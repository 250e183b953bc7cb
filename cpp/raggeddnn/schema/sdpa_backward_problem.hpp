// A backward attention node as plain data: the forward problem whose gradient it is, with o and
// stats as inputs, and the gradients. Read and checked once, like sdpa_problem.hpp.
#pragma once

#include "raggeddnn/schema/sdpa_problem.hpp"

namespace raggeddnn::schema {

struct SdpaBackwardProblem : SdpaProblem {
    SdpaBackwardProblem() { op = "sdpa_backward"; }

    // `o` and `stats` (always set) are what the forward pass wrote.
    TensorGeometry d_o;                     // as o, any strides
    std::optional<TensorGeometry> d_stats;  // the gradient of stats, as stats
    TensorGeometry dq;                      // as q, k, v
    TensorGeometry dk;
    TensorGeometry dv;
    std::optional<TensorGeometry> dbias;  // viewed like bias: broadcast axes have stride 0
    Dims4 dbias_dims{};                   // its own, right-aligned: 1 where summed over
};

namespace detail {

inline void check_dims(const OperandReader& reader, const TensorGeometry& got, const Dims4& dims) {
    if (got.dims == dims) return;
    reader.refuse(got.label, " has dims ", list_of(got.dims), ", expected ", list_of(dims));
}

inline void read_forward_results(SdpaBackwardProblem& p, const OperandReader& reader,
                                 const SdpaBackwardAttributes& a) {
    check_dims(reader, p.o, dims_of_output(p));
    p.d_o = reader.tensor("do", a.do_tensor_uid());
    check_dims(reader, p.d_o, dims_of_output(p));
    p.stats = reader.tensor("stats", a.stats_tensor_uid());
    check_dims(reader, *p.stats, dims_of_stats(p));
    check_stats_type(reader, *p.stats);
    p.d_stats = reader.tensor("dstats", a.dstats_tensor_uid());
    if (!p.d_stats) return;
    check_dims(reader, *p.d_stats, dims_of_stats(p));
    check_stats_type(reader, *p.d_stats);
}

inline void read_dbias(SdpaBackwardProblem& p, const OperandReader& reader,
                       const SdpaBackwardAttributes& a) {
    if (!a.dbias_tensor_uid().has_value()) return;
    if (!p.bias) reader.refuse_unset("dbias is set and bias is not, expected a bias");
    const TensorView view = reader.find("dbias", *a.dbias_tensor_uid());
    const std::vector<int64_t> own = view.dims();
    const std::vector<int64_t> expected = reader.find("bias", p.bias->uid).dims();
    p.dbias = reader.broadcast("dbias", view.uid(), p.bias->dims);
    if (own != expected) {
        reader.refuse(p.dbias->label, " has dims ", list_of(own), ", expected ", list_of(expected),
                      " as ", p.bias->label);
    }
    p.dbias_dims = {1, 1, 1, 1};
    std::copy(own.begin(), own.end(), p.dbias_dims.end() - static_cast<std::ptrdiff_t>(own.size()));
    TensorGeometry stored = *p.dbias;
    stored.dims = p.dbias_dims;
    check_output(reader, stored, p.dbias_dims);
}

inline void read_gradients(SdpaBackwardProblem& p, const OperandReader& reader,
                           const SdpaBackwardAttributes& a) {
    p.dq = reader.tensor("dq", a.dq_tensor_uid());
    p.dk = reader.tensor("dk", a.dk_tensor_uid());
    p.dv = reader.tensor("dv", a.dv_tensor_uid());
    check_output(reader, p.dq, p.q.dims);
    check_output(reader, p.dk, p.k.dims);
    check_output(reader, p.dv, p.v.dims);
    read_dbias(p, reader, a);
}

inline void check_distinct(const OperandReader& reader, const SdpaBackwardProblem& p) {
    std::vector<NamedUid> outputs = {named("dq", p.dq), named("dk", p.dk), named("dv", p.dv)};
    if (p.dbias) outputs.push_back(named("dbias", *p.dbias));
    std::vector<std::pair<std::string_view, const TensorGeometry*>> read = {
        {"q", &p.q}, {"k", &p.k}, {"v", &p.v}, {"o", &p.o}, {"do", &p.d_o}, {"stats", &*p.stats}};
    if (p.d_stats) read.emplace_back("dstats", &*p.d_stats);
    check_distinct(reader, inputs_of(p, read, {&p.dq, &p.dk, &p.dv}), outputs);
}

}  // namespace detail

// Throws as read_sdpa_problem does.
inline SdpaBackwardProblem read_sdpa_backward_problem(const GraphView& graph, const Node& node) {
    const SdpaBackwardAttributes* attributes = node.attributes_as_SdpaBackwardAttributes();
    SdpaBackwardProblem problem;
    const OperandReader reader(graph, problem.op);
    if (!attributes) {
        reader.refuse("node has attributes of type ",
                      EnumNameNodeAttributes(node.attributes_type()),
                      ", expected SdpaBackwardAttributes");
    }
    detail::read_tensors(problem, reader, *attributes);
    detail::read_forward_results(problem, reader, *attributes);
    detail::read_gradients(problem, reader, *attributes);
    detail::read_options(problem, reader, *attributes);
    detail::check_distinct(reader, problem);
    std::vector<detail::UnreadSlot> slots = detail::shared_unread_slots(problem, *attributes);
    slots.push_back({"dropout_scale_inv", attributes->dropout_scale_inv_tensor_uid().has_value()});
    problem.unread = detail::names_of_set(slots);
    return problem;
}

}  // namespace raggeddnn::schema
