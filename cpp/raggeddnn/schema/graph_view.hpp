// Typed reading of a serialized graph: what an engine sees. Header-only, so that a plugin needs
// nothing of ours at link time. The views borrow the bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/schema/data_type_map.hpp"
#include "raggeddnn/schema/graph_generated.h"
#include "raggeddnn/tensor/data_type.hpp"

namespace raggeddnn::schema {

inline std::optional<int64_t> to_std(const flatbuffers::Optional<int64_t>& value) {
    return value.has_value() ? std::optional<int64_t>(*value) : std::nullopt;
}

// One tensor of a graph. The by-value queries follow the runtime pass-by-value document,
// section 4.1: only the runtime flag is stored, the rest is derived from it and from the presence
// of a value.
class TensorView {
public:
    explicit TensorView(const TensorAttributes* table) : table_(table) {}

    int64_t uid() const { return table_->uid(); }
    std::string_view name() const {
        return table_->name() ? table_->name()->string_view() : std::string_view{};
    }
    raggeddnn::DataType data_type() const { return from_wire(table_->data_type()); }
    std::vector<int64_t> dims() const { return copy(table_->dims()); }
    std::vector<int64_t> strides() const { return copy(table_->strides()); }
    bool is_virtual() const { return table_->virtual_(); }

    bool has_value() const { return table_->value_type() != TensorValue::NONE; }
    bool is_runtime_pass_by_value() const { return table_->is_runtime_pass_by_value(); }
    bool is_by_value() const { return has_value() || is_runtime_pass_by_value(); }
    bool has_compile_time_constant() const { return has_value() && !is_runtime_pass_by_value(); }

    // The baked value, widened; integers beyond 2^53 lose their low bits. Float8Value is a number
    // only for UINT8; for the FP8 types it holds raw bits.
    std::optional<double> value_as_double() const {
        switch (table_->value_type()) {
            case TensorValue::Float32Value: return table_->value_as_Float32Value()->value();
            case TensorValue::Float16Value: return table_->value_as_Float16Value()->value();
            case TensorValue::BFloat16Value: return table_->value_as_BFloat16Value()->value();
            case TensorValue::Float8Value:
                if (data_type() != raggeddnn::DataType::UINT8) return std::nullopt;
                return table_->value_as_Float8Value()->value();
            case TensorValue::Int32Value: return table_->value_as_Int32Value()->value();
            case TensorValue::Float64Value: return table_->value_as_Float64Value()->value();
            case TensorValue::Int64Value:
                return static_cast<double>(table_->value_as_Int64Value()->value());
            case TensorValue::BoolValue: return table_->value_as_BoolValue()->value() ? 1.0 : 0.0;
            default: return std::nullopt;
        }
    }

    // The baked value of an INT32 or INT64, with all its bits.
    std::optional<int64_t> value_as_integer() const {
        switch (table_->value_type()) {
            case TensorValue::Int32Value: return table_->value_as_Int32Value()->value();
            case TensorValue::Int64Value: return table_->value_as_Int64Value()->value();
            default: return std::nullopt;
        }
    }

    bool has_ragged_offset() const { return table_->ragged_offset_tensor_uid().has_value(); }
    std::optional<int64_t> ragged_offset_uid() const {
        return to_std(table_->ragged_offset_tensor_uid());
    }
    int64_t ragged_offset_multiplier() const { return table_->ragged_offset_multiplier(); }
    int64_t alignment() const { return table_->alignment(); }

    const TensorAttributes& table() const { return *table_; }

    // How messages name it: "tensor 'q' (uid 3)".
    std::string label() const {
        const std::string uid_text = "uid " + std::to_string(uid());
        return name().empty() ? "tensor with " + uid_text
                              : "tensor '" + std::string(name()) + "' (" + uid_text + ")";
    }

private:
    static std::vector<int64_t> copy(const flatbuffers::Vector<int64_t>* values) {
        std::vector<int64_t> copied(values ? values->size() : 0);
        // Byte by byte: the verifier does not see to it that the elements are 8-aligned.
        if (!copied.empty()) {
            std::memcpy(copied.data(), values->Data(), copied.size() * sizeof(int64_t));
        }
        for (int64_t& value : copied) value = flatbuffers::EndianScalar(value);
        return copied;
    }
    const TensorAttributes* table_;
};

// A serialized graph, verified as far as memory safety goes. The FlatBuffers verifier passes a
// union tag without a value, and tags it does not know; both are refused here, so that readers need
// not ask.
class GraphView {
public:
    GraphView(const void* data, size_t size) : bytes_(static_cast<const uint8_t*>(data), size) {
        flatbuffers::Verifier verifier(static_cast<const uint8_t*>(data), size);
        if (!data || !VerifyGraphBuffer(verifier))
            invalid("graph: ", size, " bytes are no valid graph");
        graph_ = GetGraph(data);
        if (graph_->tensors()) {
            for (const TensorAttributes* t : *graph_->tensors()) {
                if (!by_uid_.emplace(t->uid(), t).second) {
                    invalid("graph: two tensors have uid ", t->uid(), ", expected unique uids");
                }
                const bool is_known = t->value_type() <= TensorValue::BoolValue;
                if (!is_known ||
                    (t->value_type() == TensorValue::NONE) != (t->value() == nullptr)) {
                    invalid("graph: ", TensorView(t).label(), " has value type ",
                            static_cast<int>(t->value_type()), t->value() ? " and a" : " and no",
                            " value, expected both or neither");
                }
            }
        }
        for (size_t i = 0; i < node_count(); ++i) {
            if (!node(i).attributes()) {
                invalid("graph: node ", i, " has no attributes, expected those of an operation");
            }
        }
    }

    const Graph& table() const { return *graph_; }
    std::span<const uint8_t> bytes() const { return bytes_; }
    size_t node_count() const { return graph_->nodes() ? graph_->nodes()->size() : 0; }
    const Node& node(size_t index) const {
        return *graph_->nodes()->Get(static_cast<flatbuffers::uoffset_t>(index));
    }

    std::vector<TensorView> tensors() const {
        std::vector<TensorView> views;
        if (graph_->tensors()) {
            for (const TensorAttributes* t : *graph_->tensors()) views.emplace_back(t);
        }
        return views;
    }

    std::optional<TensorView> find(int64_t uid) const {
        const auto found = by_uid_.find(uid);
        if (found == by_uid_.end()) return std::nullopt;
        return TensorView(found->second);
    }
    TensorView tensor(int64_t uid) const {
        const auto found = find(uid);
        if (!found) invalid("graph: no tensor has uid ", uid);
        return *found;
    }
    std::optional<TensorView> tensor(const flatbuffers::Optional<int64_t>& uid) const {
        if (!uid.has_value()) return std::nullopt;
        return tensor(*uid);
    }

private:
    std::span<const uint8_t> bytes_;
    const Graph* graph_ = nullptr;
    std::unordered_map<int64_t, const TensorAttributes*> by_uid_;
};

}  // namespace raggeddnn::schema
