// The options of an SDPA node, by hipDNN's names, over the wire's own table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "raggeddnn/graph/tensor_attributes.hpp"
#include "raggeddnn/schema/graph_generated.h"

namespace raggeddnn {

enum class DiagonalAlignment { TOP_LEFT, BOTTOM_RIGHT };

class RAGGEDDNN_API SdpaAttributes {
public:
    using Table = schema::SdpaAttributesT;
    using Slot = flatbuffers::Optional<int64_t> Table::*;

    struct Operand {
        Slot slot;
        std::string role;
        TensorPtr tensor;
    };

    SdpaAttributes& set_name(std::string name);
    // Additive, broadcast to [B, Hq, Sq, Skv].
    SdpaAttributes& set_bias(TensorPtr t) { return set(&Table::attn_mask_tensor_uid, "bias", t); }
    // Multiplies q.k: a scalar tensor in any by-value state, or a number. Neither: 1/sqrt(D).
    SdpaAttributes& set_attn_scale(TensorPtr t) {
        return set(&Table::scale_tensor_uid, "attn_scale", t);
    }
    SdpaAttributes& set_attn_scale(double scale);
    // Valid rows of each batch, [B, 1, 1, 1] INT32 or INT64; both or neither. Sets padding_mask.
    SdpaAttributes& set_seq_len_q(TensorPtr t) {
        return set(&Table::seq_len_q_tensor_uid, "seq_len_q", t);
    }
    SdpaAttributes& set_seq_len_kv(TensorPtr t) {
        return set(&Table::seq_len_kv_tensor_uid, "seq_len_kv", t);
    }
    SdpaAttributes& set_padding_mask(bool value);
    // Row r sees no key beyond r + offset: right bound 0, TOP_LEFT or BOTTOM_RIGHT.
    SdpaAttributes& set_causal_mask(bool value);
    SdpaAttributes& set_causal_mask_bottom_right(bool value);
    SdpaAttributes& set_diagonal_alignment(DiagonalAlignment alignment);
    // Inclusive; negative or unset: open.
    SdpaAttributes& set_diagonal_band_left_bound(std::optional<int64_t> bound);
    SdpaAttributes& set_diagonal_band_right_bound(std::optional<int64_t> bound);
    // Dropout of the probabilities: the counter's seed and offset are scalar tensors.
    SdpaAttributes& set_dropout(float probability, TensorPtr seed, TensorPtr offset);
    SdpaAttributes& set_generate_stats(bool value);

    const Table& table() const { return table_; }
    const std::string& name() const { return name_; }
    const std::vector<Operand>& operands() const { return operands_; }
    bool generate_stats() const { return table_.generate_stats.value_or(false); }
    std::optional<double> attn_scale() const { return attn_scale_; }
    bool has(Slot slot) const;

    // Puts slots that other calls imply into the table (padding_mask), and returns it.
    Table lowered() const;

private:
    SdpaAttributes& set(Slot slot, const char* role, TensorPtr tensor);

    Table table_;
    std::optional<double> attn_scale_;
    std::string name_;
    std::vector<Operand> operands_;
};

}  // namespace raggeddnn
