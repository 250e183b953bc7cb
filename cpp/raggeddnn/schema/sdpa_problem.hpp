// A forward attention node as plain data: read once from the graph, checked once, with deprecated
// spellings mapped to the current ones. The frontend validates with it and every engine starts from
// it, so a graph means the same to all of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "raggeddnn/schema/tensor_geometry.hpp"

namespace raggeddnn::schema {

struct SdpaProblem {
    TensorGeometry q;                      // [B, Hq, Sq, D]
    TensorGeometry k;                      // [B, Hk, Skv, D], Hk divides Hq
    TensorGeometry v;                      // [B, Hv, Skv, Dv], Hv divides Hq, maybe not Hk
    TensorGeometry o;                      // [B, Hq, Sq, Dv]
    std::optional<TensorGeometry> stats;   // [B, Hq, Sq, 1], FLOAT or DOUBLE
    std::optional<TensorGeometry> bias;    // viewed as [B, Hq, Sq, Skv], broadcast axes stride 0
    std::optional<IndexTensor> seq_len_q;  // both lengths or neither
    std::optional<IndexTensor> seq_len_kv;

    double scale = 1.0;                // where `scale_uid` is unset
    std::optional<int64_t> scale_uid;  // a pass-by-value scalar holds the scale
    bool is_default_scale = false;     // the node states none: 1/sqrt(D)

    // Inclusive, in keys, counted from the diagonal; unset is open.
    std::optional<int64_t> left_bound;
    std::optional<int64_t> right_bound;
    bool is_bottom_right = false;

    // Attributes set on the node that are not read above. An engine that does not read them either
    // must refuse the node.
    std::vector<std::string> unread;

    int64_t batches() const { return q.batches(); }
    int64_t heads() const { return q.heads(); }
    int64_t head_dim() const { return q.width(); }
    int64_t value_dim() const { return v.width(); }
};

namespace detail {

inline void check_same(const OperandReader& reader, const TensorGeometry& got,
                       const TensorGeometry& like, std::string_view what, size_t axis) {
    if (got.dims[axis] != like.dims[axis]) {
        reader.refuse(got.label, " has ", what, " ", got.dims[axis], ", expected ", like.dims[axis],
                      " as ", like.label);
    }
}

inline void check_heads(const OperandReader& reader, const TensorGeometry& kv,
                        const TensorGeometry& q) {
    if (q.heads() % kv.heads() != 0) {
        reader.refuse(kv.label, " has ", kv.heads(), " heads, expected a divisor of the ",
                      q.heads(), " of ", q.label);
    }
}

// Several rows in one place would make the result depend on the order of writing.
inline void check_output(const OperandReader& reader, const TensorGeometry& output,
                         const Dims4& dims) {
    if (output.dims != dims) {
        reader.refuse(output.label, " has dims ", list_of(output.dims), ", expected ",
                      list_of(dims));
    }
    if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return;  // nothing is written
    for (size_t axis = output.ragged ? HEAD_AXIS : BATCH_AXIS; axis < 4; ++axis) {
        if (output.dims[axis] > 1 && output.strides[axis] == 0) {
            reader.refuse(output.label, " has stride 0 over axis ", axis, " of ", output.dims[axis],
                          ", expected at least 1 for an output");
        }
    }
}

inline void check_distinct(const OperandReader& reader, const SdpaProblem& p) {
    std::vector<std::pair<int64_t, std::string_view>> inputs = {
        {p.q.uid, "q"}, {p.k.uid, "k"}, {p.v.uid, "v"}};
    if (p.bias) inputs.emplace_back(p.bias->uid, "bias");
    for (const auto* lengths : {&p.seq_len_q, &p.seq_len_kv}) {
        if (*lengths) inputs.emplace_back((*lengths)->uid, (*lengths)->label);
    }
    for (const TensorGeometry* t : {&p.q, &p.k, &p.v, &p.o}) {
        if (t->ragged) inputs.emplace_back(t->ragged->offsets.uid, t->ragged->offsets.label);
    }
    if (p.stats) inputs.emplace_back(p.stats->uid, "stats");
    for (const auto& [uid, role] : inputs) {
        if (uid == p.o.uid) {
            reader.refuse(p.o.label, " is the same tensor as ", role, ", expected its own");
        }
        if (p.stats && uid == p.stats->uid && role != "stats") {
            reader.refuse(p.stats->label, " is the same tensor as ", role, ", expected its own");
        }
    }
}

inline void read_tensors(SdpaProblem& p, const OperandReader& reader, const SdpaAttributes& a) {
    p.q = reader.tensor("q", a.q_tensor_uid());
    p.k = reader.tensor("k", a.k_tensor_uid());
    p.v = reader.tensor("v", a.v_tensor_uid());
    p.o = reader.tensor("o", a.o_tensor_uid());
    check_same(reader, p.k, p.q, "batch", BATCH_AXIS);
    check_same(reader, p.v, p.q, "batch", BATCH_AXIS);
    check_same(reader, p.k, p.q, "head_dim", WIDTH_AXIS);
    check_same(reader, p.v, p.k, "sequence length", SEQUENCE_AXIS);
    check_heads(reader, p.k, p.q);
    check_heads(reader, p.v, p.q);
    check_output(reader, p.o, {p.batches(), p.heads(), p.q.max_rows(), p.value_dim()});
    if (a.attn_mask_tensor_uid().has_value()) {
        const Dims4 scores = {p.batches(), p.heads(), p.q.max_rows(), p.k.max_rows()};
        p.bias = reader.broadcast("bias", *a.attn_mask_tensor_uid(), scores);
    }
}

inline void read_stats(SdpaProblem& p, const OperandReader& reader, const SdpaAttributes& a) {
    const bool has_stats = a.stats_tensor_uid().has_value();
    if (a.generate_stats().has_value() && *a.generate_stats() != has_stats) {
        if (has_stats) reader.refuse("stats is set and generate_stats is false, expected true");
        fail(ErrorCode::ATTRIBUTE_NOT_SET,
             "[sdpa] generate_stats is true and stats is not set, expected a tensor");
    }
    p.stats = reader.tensor("stats", a.stats_tensor_uid());
    if (!p.stats) return;
    check_output(reader, *p.stats, {p.batches(), p.heads(), p.q.max_rows(), 1});
    if (p.stats->type != raggeddnn::DataType::FLOAT &&
        p.stats->type != raggeddnn::DataType::DOUBLE) {
        reader.refuse(p.stats->label, " has data type ", to_string(p.stats->type),
                      ", expected FLOAT or DOUBLE");
    }
}

inline void read_lengths(SdpaProblem& p, const OperandReader& reader, const SdpaAttributes& a) {
    const bool has_q = a.seq_len_q_tensor_uid().has_value();
    const bool has_kv = a.seq_len_kv_tensor_uid().has_value();
    if (has_q != has_kv) {
        fail(ErrorCode::ATTRIBUTE_NOT_SET, "[sdpa] ", has_q ? "seq_len_q" : "seq_len_kv",
             " is set and ", has_q ? "seq_len_kv" : "seq_len_q",
             " is not, expected both or neither");
    }
    if (a.padding_mask() && !has_q) {
        fail(ErrorCode::ATTRIBUTE_NOT_SET,
             "[sdpa] padding_mask is true and seq_len_q and seq_len_kv are not set, expected both");
    }
    if (!has_q) return;
    p.seq_len_q = reader.index_tensor("seq_len_q", *a.seq_len_q_tensor_uid(), p.batches());
    p.seq_len_kv = reader.index_tensor("seq_len_kv", *a.seq_len_kv_tensor_uid(), p.batches());
}

inline bool is_scale_type(raggeddnn::DataType type) {
    using raggeddnn::DataType;
    return type == DataType::DOUBLE || type == DataType::FLOAT || type == DataType::HALF ||
           type == DataType::BFLOAT16 || type == DataType::INT32 || type == DataType::INT64;
}

inline void read_scale(SdpaProblem& p, const OperandReader& reader, const SdpaAttributes& a) {
    const bool has_value = a.attn_scale_value().has_value();
    if (!a.scale_tensor_uid().has_value()) {
        p.is_default_scale = !has_value;
        p.scale = has_value ? static_cast<double>(*a.attn_scale_value())
                            : 1.0 / std::sqrt(static_cast<double>(p.head_dim()));
        return;
    }
    const TensorView view = reader.find("attn_scale", *a.scale_tensor_uid());
    const std::string label = OperandReader::label_of("attn_scale", view);
    if (has_value) {
        reader.refuse("attn_scale_value is ", *a.attn_scale_value(), " and ", label,
                      " is set as well, expected one of them");
    }
    const std::vector<int64_t> dims = view.dims();
    if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim != 1; })) {
        reader.refuse(label, " has dims ", list_of(dims), ", expected one element");
    }
    if (!view.is_by_value()) {
        reader.refuse(label, " is a tensor in device memory, expected a pass-by-value scalar");
    }
    if (!is_scale_type(view.data_type())) {
        reader.refuse(label, " has data type ", to_string(view.data_type()),
                      ", expected DOUBLE, FLOAT, HALF, BFLOAT16, INT32 or INT64");
    }
    p.scale_uid = view.uid();
}

// Negative means open. The cap changes nothing, since no row is as far from a key, and keeps sums
// of rows and bounds within 64 bits.
inline std::optional<int64_t> normalized_bound(const flatbuffers::Optional<int64_t>& bound) {
    if (!bound.has_value() || *bound < 0) return std::nullopt;
    return std::min<int64_t>(*bound, 2 * MAX_DIM);
}

inline void read_mask(SdpaProblem& p, const OperandReader& reader, const SdpaAttributes& a) {
    const DiagonalAlignment alignment = a.diagonal_alignment();
    if (alignment != DiagonalAlignment::TOP_LEFT && alignment != DiagonalAlignment::BOTTOM_RIGHT) {
        reader.refuse("diagonal_alignment is ", static_cast<int>(alignment),
                      ", expected 0 (TOP_LEFT) or 1 (BOTTOM_RIGHT)");
    }
    p.is_bottom_right = alignment == DiagonalAlignment::BOTTOM_RIGHT;
    p.left_bound = normalized_bound(a.left_bound());
    p.right_bound = normalized_bound(a.right_bound());
    if (!a.causal_mask() && !a.causal_mask_bottom_right()) return;

    const std::string_view flag = a.causal_mask() ? "causal_mask" : "causal_mask_bottom_right";
    if (a.causal_mask() && a.causal_mask_bottom_right()) {
        reader.refuse("causal_mask and causal_mask_bottom_right are both true, expected one");
    }
    if (a.right_bound().has_value() && *a.right_bound() != 0) {
        reader.refuse(flag, " is true and right_bound is ", *a.right_bound(),
                      ", expected 0 or unset");
    }
    if (a.causal_mask() && p.is_bottom_right) {
        reader.refuse("causal_mask is true and diagonal_alignment is BOTTOM_RIGHT, expected ",
                      "TOP_LEFT, or right_bound 0 in place of the flag");
    }
    p.right_bound = 0;
    if (a.causal_mask_bottom_right()) p.is_bottom_right = true;
}

inline std::vector<std::string> unread_attributes(const SdpaAttributes& a) {
    struct Slot {
        const char* name;
        bool is_set;
    };
    const auto p_drop = a.dropout_probability();
    // A probability of 0 drops nothing, whichever way it was stored.
    const bool drops = p_drop.has_value() && *p_drop != 0.0f;
    const Slot slots[] = {
        {"seed", a.seed_tensor_uid().has_value()},
        {"offset", a.offset_tensor_uid().has_value()},
        {"dropout_mask", a.dropout_mask_tensor_uid().has_value()},
        {"dropout_scale", a.dropout_scale_tensor_uid().has_value()},
        {"dropout_probability", drops},
        {"page_table_k", a.page_table_k_tensor_uid().has_value()},
        {"page_table_v", a.page_table_v_tensor_uid().has_value()},
        {"block_mask", a.block_mask_tensor_uid().has_value()},
        {"sink_token", a.sink_token_tensor_uid().has_value()},
        {"descale_q", a.descale_q_tensor_uid().has_value()},
        {"descale_k", a.descale_k_tensor_uid().has_value()},
        {"descale_v", a.descale_v_tensor_uid().has_value()},
        {"descale_s", a.descale_s_tensor_uid().has_value()},
        {"scale_s", a.scale_s_tensor_uid().has_value()},
        {"scale_o", a.scale_o_tensor_uid().has_value()},
        {"max", a.max_tensor_uid().has_value()},
        {"sum_exp", a.sum_exp_tensor_uid().has_value()},
        {"rng_dump", a.rng_dump_tensor_uid().has_value()},
        {"amax_s", a.amax_s_tensor_uid().has_value()},
        {"amax_o", a.amax_o_tensor_uid().has_value()},
        {"alibi_mask", a.alibi_mask()},
        {"max_seq_len_kv", a.max_seq_len_kv().has_value()},
        {"mma_core_mode", a.mma_core_mode() != schema::DataType::UNSET},
    };
    std::vector<std::string> names;
    for (const Slot& slot : slots) {
        if (slot.is_set) names.emplace_back(slot.name);
    }
    return names;
}

}  // namespace detail

// Throws INVALID_VALUE or ATTRIBUTE_NOT_SET; the message names the tensor, what was got, and what
// was expected. `implementation`, `umd_flops` and `umd_bytes` are hints and are not read.
inline SdpaProblem read_sdpa_problem(const GraphView& graph, const Node& node) {
    const SdpaAttributes* attributes = node.attributes_as_SdpaAttributes();
    const OperandReader reader(graph, "sdpa");
    if (!attributes) {
        reader.refuse("node has attributes of type ",
                      EnumNameNodeAttributes(node.attributes_type()), ", expected SdpaAttributes");
    }
    SdpaProblem problem;
    detail::read_tensors(problem, reader, *attributes);
    detail::read_stats(problem, reader, *attributes);
    detail::read_lengths(problem, reader, *attributes);
    detail::read_scale(problem, reader, *attributes);
    detail::read_mask(problem, reader, *attributes);
    detail::check_distinct(reader, problem);
    problem.unread = detail::unread_attributes(*attributes);
    return problem;
}

}  // namespace raggeddnn::schema
