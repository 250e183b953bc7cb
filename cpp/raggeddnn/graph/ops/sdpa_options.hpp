// The options that attention's forward and backward nodes share, by hipDNN's names. Each node has
// a table of its own on the wire, with the same names of fields, so the setters are written once
// for both.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "raggeddnn/graph/tensor_attributes.hpp"
#include "raggeddnn/schema/graph_generated.h"

namespace raggeddnn {

enum class DiagonalAlignment { TOP_LEFT, BOTTOM_RIGHT };

// Derived: the class whose setters chain. WireTable: e.g. schema::SdpaAttributesT.
template <class Derived, class WireTable>
class SdpaOptions {
public:
    using Table = WireTable;
    using Slot = flatbuffers::Optional<int64_t> Table::*;

    struct Operand {
        Slot slot;
        std::string role;
        TensorPtr tensor;
    };

    Derived& set_name(std::string name) {
        name_ = std::move(name);
        return self();
    }
    // Additive, broadcast to [B, Hq, Sq, Skv].
    Derived& set_bias(TensorPtr t) { return set(&Table::attn_mask_tensor_uid, "bias", t); }
    // Multiplies q.k: a scalar tensor in any by-value state, or a number. Neither: 1/sqrt(D).
    Derived& set_attn_scale(TensorPtr t) { return set(&Table::scale_tensor_uid, "attn_scale", t); }
    Derived& set_attn_scale(double scale) {
        attn_scale_ = scale;
        return self();
    }
    // Valid rows of each batch, [B, 1, 1, 1] INT32 or INT64; both or neither. Sets padding_mask.
    Derived& set_seq_len_q(TensorPtr t) {
        return set(&Table::seq_len_q_tensor_uid, "seq_len_q", t);
    }
    Derived& set_seq_len_kv(TensorPtr t) {
        return set(&Table::seq_len_kv_tensor_uid, "seq_len_kv", t);
    }
    Derived& set_padding_mask(bool value) {
        table_.padding_mask = value;
        return self();
    }
    // Row r sees no key beyond r + offset: right bound 0, TOP_LEFT or BOTTOM_RIGHT.
    Derived& set_causal_mask(bool value) {
        return value ? set_causal(DiagonalAlignment::TOP_LEFT) : self();
    }
    Derived& set_causal_mask_bottom_right(bool value) {
        return value ? set_causal(DiagonalAlignment::BOTTOM_RIGHT) : self();
    }
    Derived& set_diagonal_alignment(DiagonalAlignment alignment) {
        table_.diagonal_alignment = alignment == DiagonalAlignment::TOP_LEFT
                                        ? schema::DiagonalAlignment::TOP_LEFT
                                        : schema::DiagonalAlignment::BOTTOM_RIGHT;
        return self();
    }
    // Inclusive; negative or unset: open.
    Derived& set_diagonal_band_left_bound(std::optional<int64_t> bound) {
        table_.left_bound = bound;
        return self();
    }
    Derived& set_diagonal_band_right_bound(std::optional<int64_t> bound) {
        table_.right_bound = bound;
        return self();
    }
    // Dropout of the probabilities: seed and offset are INT32 or INT64, scalars in any by-value
    // state or tensors of one element. Without a probability engines refuse them. Which ones are
    // dropped: plugin/philox.hpp.
    Derived& set_dropout(std::optional<float> probability, TensorPtr seed, TensorPtr offset) {
        table_.dropout_probability = probability;
        set(&Table::seed_tensor_uid, "seed", std::move(seed));
        return set(&Table::offset_tensor_uid, "offset", std::move(offset));
    }

    const Table& table() const { return table_; }
    const std::string& name() const { return name_; }
    const std::vector<Operand>& operands() const { return operands_; }
    std::optional<double> attn_scale() const { return attn_scale_; }
    bool has(Slot slot) const { return operand(slot) != nullptr; }
    // Null where none is set.
    TensorPtr operand(Slot slot) const {
        const auto found = std::find_if(operands_.begin(), operands_.end(),
                                        [slot](const Operand& o) { return o.slot == slot; });
        return found == operands_.end() ? nullptr : found->tensor;
    }

    // Puts slots that other calls imply into the table (padding_mask), and returns it.
    Table lowered() const {
        Table table = table_;
        if (has(&Table::seq_len_q_tensor_uid) || has(&Table::seq_len_kv_tensor_uid)) {
            table.padding_mask = true;
        }
        return table;
    }

protected:
    Derived& set(Slot slot, const char* role, TensorPtr tensor) {
        std::erase_if(operands_, [slot](const Operand& o) { return o.slot == slot; });
        if (tensor) operands_.push_back({slot, role, std::move(tensor)});
        return self();
    }
    Table table_;

private:
    Derived& self() { return static_cast<Derived&>(*this); }
    Derived& set_causal(DiagonalAlignment alignment) {
        set_diagonal_band_right_bound(0);
        return set_diagonal_alignment(alignment);
    }

    std::optional<double> attn_scale_;
    std::string name_;
    std::vector<Operand> operands_;
};

}  // namespace raggeddnn
