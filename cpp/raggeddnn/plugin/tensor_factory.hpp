// Runtime tensors for the tensors that a graph states: what an engine that runs graphs of several
// nodes allocates between them, and what a test allocates for a variant pack (ragged-tensor
// document, 4.10.1 and 4.11.2).
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/schema/graph_view.hpp"
#include "raggeddnn/tensor/ragged_tensor.hpp"

namespace raggeddnn::plugin {

using VariantPack = std::unordered_map<int64_t, void*>;

// A dense tensor of the attribute's dims, strides and data type, zeroed.
inline std::unique_ptr<ITensor> create_tensor_from_attribute(const schema::TensorView& attribute) {
    return with_element_type(attribute.data_type(), [&]<class T>(std::type_identity<T>) {
        return std::unique_ptr<ITensor>(
            std::make_unique<Tensor<T>>(attribute.dims(), attribute.strides()));
    });
}

// A ragged tensor over these offsets, zeroed: as many elements as the last offset says, and
// `guard_elements` more that no batch owns.
inline std::unique_ptr<ITensor> create_tensor_from_attribute(const schema::TensorView& attribute,
                                                             std::shared_ptr<ITensor> aux,
                                                             size_t guard_elements = 0) {
    return with_element_type(attribute.data_type(), [&]<class T>(std::type_identity<T>) {
        const auto make = [&](std::optional<size_t> physical_count) {
            return std::make_unique<RaggedTensor<T>>(attribute.dims(), attribute.strides(),
                                                     BHSD_SEQ_AXIS, aux, physical_count,
                                                     attribute.ragged_offset_multiplier());
        };
        auto made = make(std::nullopt);
        if (guard_elements > 0) made = make(made->element_count() + guard_elements);
        return std::unique_ptr<ITensor>(std::move(made));
    });
}

// The offsets that a ragged attribute refers to, as a packed tensor [B + 1, 1, 1, 1]: over the
// given host memory, or a copy of it where the offsets do not lie next to each other.
inline std::shared_ptr<ITensor> make_aux(const schema::TensorView& aux, void* data) {
    std::vector<int64_t> dims = aux.dims();
    std::vector<int64_t> strides = aux.strides();
    dims.resize(4, 1);  // rank 1 is seen so
    strides.resize(4, 1);
    auto given = make_shallow_itensor(aux.data_type(), data, dims, strides);
    if (given->is_packed()) return given;
    return with_element_type(aux.data_type(), [&]<class T>(std::type_identity<T>) {
        auto packed = std::make_shared<Tensor<T>>(dims);
        auto to = packed->begin();
        for (const void* from : std::as_const(*given)) {
            std::memcpy(*to, from, sizeof(T));
            ++to;
        }
        return std::shared_ptr<ITensor>(std::move(packed));
    });
}

// Dense or ragged, as the attribute says. Of a ragged one the offsets are those in the variant
// pack, in host memory; they are never made here. INVALID_VALUE, naming the tensor, where the pack
// lacks them or they are no offsets.
inline std::unique_ptr<ITensor> create_tensor_from_attribute(const schema::TensorView& attribute,
                                                             const VariantPack& variant_pack,
                                                             const schema::GraphView& graph) {
    try {
        const auto aux_uid = attribute.ragged_offset_uid();
        if (!aux_uid) return create_tensor_from_attribute(attribute);
        const schema::TensorView aux = graph.tensor(*aux_uid);
        const auto found = variant_pack.find(*aux_uid);
        if (found == variant_pack.end() || !found->second) {
            invalid("variant pack: no pointer for its ragged offset, ", aux.label(),
                    ", expected one");
        }
        return create_tensor_from_attribute(attribute, make_aux(aux, found->second));
    } catch (const Exception& e) {
        throw Exception(e.code(), attribute.label() + ": " + e.what());
    }
}

// Allocates those of the tensors that are not in the variant pack, adds them to it, and fills them
// with the sentinel of their data type, so that what no node wrote is seen. The pack's new entries
// live as long as what is returned.
inline std::vector<std::unique_ptr<ITensor>> populate_variant_pack_with_missing_virtual_tensors(
    const schema::GraphView& graph, std::span<const int64_t> virtual_uids,
    VariantPack& variant_pack) {
    std::vector<std::unique_ptr<ITensor>> made;
    for (const int64_t uid : virtual_uids) {
        if (variant_pack.count(uid)) continue;
        made.push_back(create_tensor_from_attribute(graph.tensor(uid), variant_pack, graph));
        made.back()->fill_with_sentinel_value();
        variant_pack[uid] = made.back()->raw_host_data();
    }
    return made;
}

// The same of every virtual tensor.
inline std::vector<std::unique_ptr<ITensor>> populate_variant_pack_with_missing_virtual_tensors(
    const schema::GraphView& graph, VariantPack& variant_pack) {
    std::vector<int64_t> uids;
    for (const schema::TensorView& tensor : graph.tensors()) {
        if (tensor.is_virtual()) uids.push_back(tensor.uid());
    }
    return populate_variant_pack_with_missing_virtual_tensors(graph, uids, variant_pack);
}

}  // namespace raggeddnn::plugin
