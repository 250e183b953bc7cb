// Offsets and lengths say where everything else lies: what an execute may touch is computed from
// them before its first node runs. One that a node of the same graph writes is not there yet at
// that time, so that whatever its memory happens to hold would be believed. The ragged-tensor
// document (4.9) takes both from the variant pack. Header-only: engines ask for themselves.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "raggeddnn/schema/graph_view.hpp"

namespace raggeddnn::schema {

// Which node writes a tensor, by the tensor's uid.
using Writers = std::unordered_map<int64_t, size_t>;

namespace detail {

template <class Attributes, class Visit>
void visit_lengths(const Attributes* attributes, Visit&& visit) {
    if (!attributes) return;
    visit("seq_len_q", attributes->seq_len_q_tensor_uid());
    visit("seq_len_kv", attributes->seq_len_kv_tensor_uid());
}

template <class Attributes, class Visit>
void visit_groups(const Attributes* attributes, Visit&& visit) {
    if (!attributes) return;
    visit("first_token_offset",
          flatbuffers::Optional<int64_t>(attributes->first_token_offset_tensor_uid()));
}

}  // namespace detail

// INVALID_VALUE for a ragged offset, a length, or the offsets of groups that a node writes.
inline void check_extents_are_given(const GraphView& graph, const Writers& writers) {
    const auto check = [&](const std::string& owner, std::string_view role, int64_t uid) {
        const auto writer = writers.find(uid);
        const auto tensor = graph.find(uid);
        if (writer == writers.end() || !tensor) return;
        invalid(owner, " has the ", role, " ", tensor->label(), ", which is a result of node ",
                writer->second, ", expected a tensor that no node writes: it is read before the ",
                "first node runs");
    };
    for (const TensorView& tensor : graph.tensors()) {
        if (const auto uid = tensor.ragged_offset_uid()) {
            check(tensor.label(), "ragged offset", *uid);
        }
    }
    for (size_t i = 0; i < graph.node_count(); ++i) {
        const Node& node = graph.node(i);
        const auto visit = [&](std::string_view role, const flatbuffers::Optional<int64_t>& uid) {
            if (uid.has_value()) check(message("node ", i), role, *uid);
        };
        detail::visit_lengths(node.attributes_as_SdpaAttributes(), visit);
        detail::visit_lengths(node.attributes_as_SdpaBackwardAttributes(), visit);
        detail::visit_groups(node.attributes_as_MoeGroupedMatmulAttributes(), visit);
        detail::visit_groups(node.attributes_as_MoeGroupedMatmulBwdAttributes(), visit);
    }
}

}  // namespace raggeddnn::schema
