// HIPDNN_BACKEND_TENSOR_DESCRIPTOR: the wire's tensor table, and the ragged offsets that belong to
// it.
#pragma once

#include <unordered_map>

#include "raggeddnn/backend/c_api/descriptor.hpp"
#include "raggeddnn/schema/graph_generated.h"

namespace raggeddnn::c_api {

class TensorDescriptor : public Descriptor {
public:
    TensorDescriptor();
    const char* kind() const override { return "tensor"; }
    // "tensor 'q' (uid 3)"
    std::string label() const;

    // A received tensor is final; its offsets are linked when all tensors are there.
    static std::shared_ptr<TensorDescriptor> received(const schema::TensorAttributesT& table);

    schema::TensorAttributesT table;
    std::shared_ptr<TensorDescriptor> ragged_offset;

protected:
    void on_finalize() override;
};

// The tensors of a received graph, by uid.
class TensorTable {
public:
    explicit TensorTable(const schema::GraphT& graph);
    const std::shared_ptr<TensorDescriptor>& at(int64_t uid, const char* what) const;
    const std::vector<std::shared_ptr<TensorDescriptor>>& in_order() const { return in_order_; }

private:
    std::vector<std::shared_ptr<TensorDescriptor>> in_order_;
    std::unordered_map<int64_t, std::shared_ptr<TensorDescriptor>> by_uid_;
};

}  // namespace raggeddnn::c_api
