#include "raggeddnn/graph/ops/sdpa.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "raggeddnn/graph/graph.hpp"
#include "raggeddnn/graph/ops/infer.hpp"
#include "raggeddnn/graph/ops/node_draft.hpp"

namespace raggeddnn {

SdpaAttributes& SdpaAttributes::set_name(std::string name) {
    name_ = std::move(name);
    return *this;
}

SdpaAttributes& SdpaAttributes::set(Slot slot, const char* role, TensorPtr tensor) {
    std::erase_if(operands_, [slot](const Operand& o) { return o.slot == slot; });
    if (tensor) operands_.push_back({slot, role, std::move(tensor)});
    return *this;
}

bool SdpaAttributes::has(Slot slot) const {
    return std::any_of(operands_.begin(), operands_.end(),
                       [slot](const Operand& o) { return o.slot == slot; });
}

SdpaAttributes& SdpaAttributes::set_attn_scale(double scale) {
    attn_scale_ = scale;
    return *this;
}

SdpaAttributes& SdpaAttributes::set_padding_mask(bool value) {
    table_.padding_mask = value;
    return *this;
}

SdpaAttributes& SdpaAttributes::set_causal_mask(bool value) {
    if (value) {
        set_diagonal_band_right_bound(0);
        set_diagonal_alignment(DiagonalAlignment::TOP_LEFT);
    }
    return *this;
}

SdpaAttributes& SdpaAttributes::set_causal_mask_bottom_right(bool value) {
    if (value) {
        set_diagonal_band_right_bound(0);
        set_diagonal_alignment(DiagonalAlignment::BOTTOM_RIGHT);
    }
    return *this;
}

SdpaAttributes& SdpaAttributes::set_diagonal_alignment(DiagonalAlignment alignment) {
    table_.diagonal_alignment = alignment == DiagonalAlignment::TOP_LEFT
                                    ? schema::DiagonalAlignment::TOP_LEFT
                                    : schema::DiagonalAlignment::BOTTOM_RIGHT;
    return *this;
}

SdpaAttributes& SdpaAttributes::set_diagonal_band_left_bound(std::optional<int64_t> bound) {
    table_.left_bound = bound;
    return *this;
}

SdpaAttributes& SdpaAttributes::set_diagonal_band_right_bound(std::optional<int64_t> bound) {
    table_.right_bound = bound;
    return *this;
}

SdpaAttributes& SdpaAttributes::set_dropout(float probability, TensorPtr seed, TensorPtr offset) {
    table_.dropout_probability = probability;
    set(&Table::seed_tensor_uid, "seed", std::move(seed));
    return set(&Table::offset_tensor_uid, "offset", std::move(offset));
}

SdpaAttributes& SdpaAttributes::set_generate_stats(bool value) {
    table_.generate_stats = value;
    return *this;
}

SdpaAttributes::Table SdpaAttributes::lowered() const {
    Table table = table_;
    if (has(&Table::seq_len_q_tensor_uid) || has(&Table::seq_len_kv_tensor_uid)) {
        table.padding_mask = true;
    }
    return table;
}

namespace graph_ops {

namespace {

std::vector<int64_t> row_major(const std::vector<int64_t>& dims) {
    std::vector<int64_t> strides(dims.size(), 1);
    for (size_t i = dims.size(); i-- > 1;) {
        strides[i - 1] = strides[i] * std::max<int64_t>(dims[i], 1);
    }
    return strides;
}

// Sequence rows outermost within a batch: the only order that ragged memory allows.
std::vector<int64_t> token_major(const std::vector<int64_t>& dims) {
    const int64_t heads = dims[1];
    const int64_t width = dims[3];
    return {dims[2] * heads * width, width, heads * width, 1};
}

void require_rank_4(const schema::TensorAttributesT& tensor, const char* role) {
    if (tensor.dims.size() == 4) return;
    invalid("[sdpa] ", role, " '", tensor.name, "' has rank ", tensor.dims.size(),
            ", expected 4: [B, H, S, D]");
}

void infer_geometry(schema::TensorAttributesT& tensor, std::vector<int64_t> dims) {
    if (tensor.dims.empty()) tensor.dims = std::move(dims);
    if (tensor.strides.empty() && tensor.dims.size() == 4) {
        tensor.strides =
            tensor.ragged_offset_tensor_uid ? token_major(tensor.dims) : row_major(tensor.dims);
    }
}

}  // namespace

void infer_sdpa(schema::SdpaAttributesT& attributes, std::optional<double> scale,
                const InferContext& context) {
    const schema::TensorAttributesT& q = context.tensor(attributes.q_tensor_uid);
    const schema::TensorAttributesT& v = context.tensor(attributes.v_tensor_uid);
    require_rank_4(q, "q");
    require_rank_4(v, "v");
    infer_geometry(context.tensor(attributes.o_tensor_uid),
                   {q.dims[0], q.dims[1], q.dims[2], v.dims[3]});
    if (attributes.stats_tensor_uid) {
        schema::TensorAttributesT& stats = context.tensor(*attributes.stats_tensor_uid);
        infer_geometry(stats, {q.dims[0], q.dims[1], q.dims[2], 1});
    }
    if (attributes.scale_tensor_uid || attributes.attn_scale_value) return;  // a tensor, or done
    // Readers differ in what an absent scale means, so it is never left absent. The attribute is a
    // float; a double problem keeps the digits in a constant tensor.
    const double value = scale ? *scale : 1.0 / std::sqrt(static_cast<double>(q.dims[3]));
    const auto narrow = static_cast<float>(value);
    if (std::isfinite(value) && !std::isfinite(narrow) && q.data_type != schema::DataType::DOUBLE) {
        invalid("[sdpa] attn_scale is ", value,
                ", which is out of range for FLOAT, expected a magnitude of at most 3.4e38");
    }
    if (q.data_type == schema::DataType::DOUBLE && static_cast<double>(narrow) != value) {
        attributes.scale_tensor_uid = context.add_constant(value);
    } else {
        attributes.attn_scale_value = narrow;
    }
}

}  // namespace graph_ops

std::array<TensorPtr, 2> Graph::sdpa(TensorPtr q, TensorPtr k, TensorPtr v,
                                     SdpaAttributes options) {
    using Table = schema::SdpaAttributesT;
    graph_ops::NodeDraft<Table> draft(*this, "sdpa", options.name(), options.lowered());
    if (options.attn_scale() && options.has(&Table::scale_tensor_uid)) {
        invalid("[", draft.prefix(),
                "] attn_scale is both a tensor and a number, expected one of them");
    }
    draft.input("q", q, &Table::q_tensor_uid);
    draft.input("k", k, &Table::k_tensor_uid);
    draft.input("v", v, &Table::v_tensor_uid);
    for (const SdpaAttributes::Operand& operand : options.operands()) {
        draft.input(operand.role, operand.tensor, operand.slot);
    }
    const TensorPtr o = draft.output("o", &Table::o_tensor_uid);
    TensorPtr stats;
    if (options.generate_stats()) {
        stats = draft.output("stats", &Table::stats_tensor_uid);
        stats->set_data_type(DataType::FLOAT);
    }
    draft.commit(
        [scale = options.attn_scale()](Table& table, const graph_ops::InferContext& context) {
            graph_ops::infer_sdpa(table, scale, context);
        });
    return {o, stats};
}

}  // namespace raggeddnn
