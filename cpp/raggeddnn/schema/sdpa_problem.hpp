// A forward attention node as plain data: read once from the graph, checked once, with deprecated
// spellings mapped to the current ones. The frontend validates with it and every engine starts from
// it, so a graph means the same to all of them. What backward nodes share is written for the
// attributes of either.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "raggeddnn/schema/tensor_geometry.hpp"

namespace raggeddnn::schema {

// A number that the random generator needs: a by-value scalar in any state, or a tensor of one
// element, which is read at execute where the engine's buffers live.
struct RandomInput {
    int64_t uid = 0;
    std::string label;
    raggeddnn::DataType type = raggeddnn::DataType::INT64;  // or INT32
    bool is_by_value = false;
    bool is_virtual = false;
};

// Probabilities are dropped as plugin/philox.hpp says.
struct SdpaDropout {
    double probability = 0.0;  // above 0, below 1
    RandomInput seed;
    RandomInput offset;
};

struct SdpaProblem {
    std::string_view op = "sdpa";          // opens messages
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

    std::optional<SdpaDropout> dropout;

    // Attributes set on the node that are not read above, and dropout_probability where `dropout`
    // is set. An engine that does not read them either must refuse the node.
    std::vector<std::string> unread;

    // The first attribute that is a reason for refusal; `reads_dropout`: the engine does dropout.
    std::optional<std::string> first_unread(bool reads_dropout) const {
        for (const std::string& name : unread) {
            const bool is_read = reads_dropout && dropout && name == "dropout_probability";
            if (!is_read) return name;
        }
        return std::nullopt;
    }

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
// From the least stride up, each axis must step over all that lies below it; a layout that
// interleaves without overlap in another way is refused with the ones that do overlap.
inline void check_no_overlap(const OperandReader& reader, const TensorGeometry& output) {
    std::array<size_t, 4> axes = {0, 1, 2, 3};
    std::sort(axes.begin(), axes.end(),
              [&](size_t a, size_t b) { return output.strides[a] < output.strides[b]; });
    int64_t span = 1;
    for (const size_t axis : axes) {
        if (output.dims[axis] <= 1 || (output.ragged && axis == BATCH_AXIS)) continue;
        if (output.strides[axis] < span) {
            reader.refuse(output.label, " has dims ", list_of(output.dims), " and strides ",
                          list_of(output.strides), ", expected stride ", span, " or more on axis ",
                          axis, ": elements of an output may not overlap");
        }
        span += (output.dims[axis] - 1) * output.strides[axis];
    }
}

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
    check_no_overlap(reader, output);
}

// An operand as the checks of aliasing see it.
struct NamedUid {
    int64_t uid;
    std::string role;
    std::string label;
};

inline NamedUid named(std::string_view role, const TensorGeometry& t) {
    return {t.uid, std::string(role), t.label};
}

// What a node reads: of every tensor also its offsets.
inline std::vector<NamedUid> inputs_of(
    const SdpaProblem& p,
    const std::vector<std::pair<std::string_view, const TensorGeometry*>>& read,
    const std::vector<const TensorGeometry*>& written) {
    std::vector<NamedUid> inputs;
    for (const auto& [role, tensor] : read) inputs.push_back(named(role, *tensor));
    if (p.bias) inputs.push_back(named("bias", *p.bias));
    for (const auto* lengths : {&p.seq_len_q, &p.seq_len_kv}) {
        if (*lengths) inputs.push_back({(*lengths)->uid, (*lengths)->label, (*lengths)->label});
    }
    const auto add_offsets = [&inputs](const TensorGeometry& t) {
        if (!t.ragged) return;
        const IndexTensor& offsets = t.ragged->offsets;
        inputs.push_back({offsets.uid, offsets.label, offsets.label});
    };
    for (const auto& [role, tensor] : read) add_offsets(*tensor);
    for (const TensorGeometry* tensor : written) add_offsets(*tensor);
    return inputs;
}

// Every output is a tensor of its own.
inline void check_distinct(const OperandReader& reader, const std::vector<NamedUid>& inputs,
                           const std::vector<NamedUid>& outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
        std::vector<NamedUid> others = inputs;
        others.insert(others.end(), outputs.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                      outputs.end());
        for (const NamedUid& other : others) {
            if (other.uid != outputs[i].uid) continue;
            reader.refuse(outputs[i].label, " is the same tensor as ", other.role,
                          ", expected its own");
        }
    }
}

// The tensors of the forward pass; whether it is written is up to the caller.
template <class Attributes>
void read_tensors(SdpaProblem& p, const OperandReader& reader, const Attributes& a) {
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
    if (a.attn_mask_tensor_uid().has_value()) {
        const Dims4 scores = {p.batches(), p.heads(), p.q.max_rows(), p.k.max_rows()};
        p.bias = reader.broadcast("bias", *a.attn_mask_tensor_uid(), scores);
    }
}

inline Dims4 dims_of_output(const SdpaProblem& p) {
    return {p.batches(), p.heads(), p.q.max_rows(), p.value_dim()};
}

inline Dims4 dims_of_stats(const SdpaProblem& p) {
    return {p.batches(), p.heads(), p.q.max_rows(), 1};
}

inline void check_stats_type(const OperandReader& reader, const TensorGeometry& stats) {
    if (stats.type == raggeddnn::DataType::FLOAT || stats.type == raggeddnn::DataType::DOUBLE) {
        return;
    }
    reader.refuse(stats.label, " has data type ", to_string(stats.type),
                  ", expected FLOAT or DOUBLE");
}

inline void read_stats(SdpaProblem& p, const OperandReader& reader, const SdpaAttributes& a) {
    const bool has_stats = a.stats_tensor_uid().has_value();
    if (a.generate_stats().has_value() && *a.generate_stats() != has_stats) {
        if (has_stats) reader.refuse("stats is set and generate_stats is false, expected true");
        reader.refuse_unset("generate_stats is true and stats is not set, expected a tensor");
    }
    p.stats = reader.tensor("stats", a.stats_tensor_uid());
    if (!p.stats) return;
    check_output(reader, *p.stats, dims_of_stats(p));
    check_stats_type(reader, *p.stats);
}

template <class Attributes>
void read_lengths(SdpaProblem& p, const OperandReader& reader, const Attributes& a) {
    const bool has_q = a.seq_len_q_tensor_uid().has_value();
    const bool has_kv = a.seq_len_kv_tensor_uid().has_value();
    if (has_q != has_kv) {
        reader.refuse_unset(has_q ? "seq_len_q" : "seq_len_kv", " is set and ",
                            has_q ? "seq_len_kv" : "seq_len_q",
                            " is not, expected both or neither");
    }
    if (a.padding_mask() && !has_q) {
        reader.refuse_unset(
            "padding_mask is true and seq_len_q and seq_len_kv are not set, expected both");
    }
    if (!has_q) return;
    p.seq_len_q = reader.index_tensor("seq_len_q", *a.seq_len_q_tensor_uid(), p.batches());
    p.seq_len_kv = reader.index_tensor("seq_len_kv", *a.seq_len_kv_tensor_uid(), p.batches());
}

template <class Attributes>
void read_scale(SdpaProblem& p, const OperandReader& reader, const Attributes& a) {
    const bool has_value = a.attn_scale_value().has_value();
    if (!a.scale_tensor_uid().has_value()) {
        p.is_default_scale = !has_value;
        p.scale = has_value ? static_cast<double>(*a.attn_scale_value())
                            : 1.0 / std::sqrt(static_cast<double>(p.head_dim()));
        return;
    }
    const TensorView view = reader.validate_scalar_parameter("attn_scale", *a.scale_tensor_uid());
    if (has_value) {
        reader.refuse("attn_scale_value is ", *a.attn_scale_value(), " and ",
                      OperandReader::label_of("attn_scale", view),
                      " is set as well, expected one of them");
    }
    p.scale_uid = view.uid();
}

// Negative means open. The cap changes nothing, since no row is as far from a key, and keeps sums
// of rows and bounds within 64 bits.
inline std::optional<int64_t> normalized_bound(const flatbuffers::Optional<int64_t>& bound) {
    if (!bound.has_value() || *bound < 0) return std::nullopt;
    return std::min<int64_t>(*bound, 2 * MAX_DIM);
}

template <class Attributes>
void read_mask(SdpaProblem& p, const OperandReader& reader, const Attributes& a) {
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

inline RandomInput read_random_input(const OperandReader& reader, std::string_view role,
                                     int64_t uid) {
    const TensorView view = reader.find(role, uid);
    const std::string label = OperandReader::label_of(role, view);
    const std::vector<int64_t> dims = view.dims();
    if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim != 1; })) {
        reader.refuse(label, " has dims ", list_of(dims), ", expected one element");
    }
    if (view.data_type() != raggeddnn::DataType::INT32 &&
        view.data_type() != raggeddnn::DataType::INT64) {
        reader.refuse(label, " has data type ", to_string(view.data_type()),
                      ", expected INT32 or INT64");
    }
    if (view.has_ragged_offset()) reader.refuse(label, " is ragged, expected a dense tensor");
    return {uid, label, view.data_type(), view.is_by_value(), view.is_virtual()};
}

// Dropout that can be drawn again from a seed and an offset. Other forms of it stay unread.
template <class Attributes>
void read_dropout(SdpaProblem& p, const OperandReader& reader, const Attributes& a) {
    if (!a.dropout_probability().has_value()) return;
    const double probability = static_cast<double>(*a.dropout_probability());
    if (!(probability >= 0.0 && probability < 1.0)) {
        reader.refuse("dropout_probability is ", probability,
                      ", expected at least 0 and less than 1");
    }
    const bool has_both = a.seed_tensor_uid().has_value() && a.offset_tensor_uid().has_value();
    if (probability == 0.0 || !has_both) return;
    p.dropout = SdpaDropout{probability, read_random_input(reader, "seed", *a.seed_tensor_uid()),
                            read_random_input(reader, "offset", *a.offset_tensor_uid())};
}

struct UnreadSlot {
    const char* name;
    bool is_set;
};

// A probability of 0 drops nothing, whichever way it was stored; then seed and offset say nothing.
template <class Attributes>
std::vector<UnreadSlot> shared_unread_slots(const SdpaProblem& p, const Attributes& a) {
    const auto probability = a.dropout_probability();
    const bool is_off = probability.has_value() && *probability == 0.0f;
    const bool reads_random = p.dropout.has_value() || is_off;
    return {
        {"seed", a.seed_tensor_uid().has_value() && !reads_random},
        {"offset", a.offset_tensor_uid().has_value() && !reads_random},
        {"dropout_mask", a.dropout_mask_tensor_uid().has_value()},
        {"dropout_scale", a.dropout_scale_tensor_uid().has_value()},
        {"dropout_probability", probability.has_value() && !is_off},
        {"alibi_mask", a.alibi_mask()},
    };
}

inline std::vector<std::string> names_of_set(const std::vector<UnreadSlot>& slots) {
    std::vector<std::string> names;
    for (const UnreadSlot& slot : slots) {
        if (slot.is_set) names.emplace_back(slot.name);
    }
    return names;
}

inline std::vector<std::string> unread_attributes(const SdpaProblem& p, const SdpaAttributes& a) {
    std::vector<UnreadSlot> slots = shared_unread_slots(p, a);
    const UnreadSlot own[] = {
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
        {"max_seq_len_kv", a.max_seq_len_kv().has_value()},
        {"mma_core_mode", a.mma_core_mode() != schema::DataType::UNSET},
    };
    slots.insert(slots.end(), std::begin(own), std::end(own));
    return names_of_set(slots);
}

// Lengths, scale, masks and dropout, which both passes state in the same way.
template <class Attributes>
void read_options(SdpaProblem& p, const OperandReader& reader, const Attributes& a) {
    read_lengths(p, reader, a);
    read_scale(p, reader, a);
    read_mask(p, reader, a);
    read_dropout(p, reader, a);
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
    detail::check_output(reader, problem.o, detail::dims_of_output(problem));
    detail::read_stats(problem, reader, *attributes);
    detail::read_options(problem, reader, *attributes);
    std::vector<const TensorGeometry*> written = {&problem.o};
    std::vector<detail::NamedUid> outputs = {detail::named("o", problem.o)};
    if (problem.stats) {
        written.push_back(&*problem.stats);
        outputs.push_back(detail::named("stats", *problem.stats));
    }
    const auto inputs = detail::inputs_of(
        problem, {{"q", &problem.q}, {"k", &problem.k}, {"v", &problem.v}}, written);
    detail::check_distinct(reader, inputs, outputs);
    problem.unread = detail::unread_attributes(problem, *attributes);
    return problem;
}

}  // namespace raggeddnn::schema
