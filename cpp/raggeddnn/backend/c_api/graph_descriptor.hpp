// HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: collects operations into the wire's graph.
#pragma once

#include "raggeddnn/backend/c_api/operation_descriptor.hpp"
#include "raggeddnn/schema/blob.hpp"

namespace raggeddnn::c_api {

class GraphDescriptor : public Descriptor {
public:
    static constexpr const char* EXPECTED = "an operation graph";
    GraphDescriptor();
    const char* kind() const override { return "operation graph"; }

    // Not final: it lacks a handle. As long as no attribute but the handle is set, its bytes are
    // those received, with every slot that this version does not know.
    static std::shared_ptr<GraphDescriptor> received(schema::GraphBlob blob);

    // The final bytes, or, before that, what they would be now without an id of their own.
    std::shared_ptr<const schema::GraphBlob> blob() const;
    hipdnnHandle& handle() const { return resolve(handle_); }

    schema::GraphT table;  // the graph's own fields; tensors and nodes are in the operations
    std::vector<std::shared_ptr<OperationDescriptor>> operations;
    hipdnnHandle_t handle_ = nullptr;

protected:
    hipdnnStatus_t unfinalized_status() const override { return HIPDNN_STATUS_SUCCESS; }
    void on_finalize() override;
    void before_set(const Attribute& row) const override;
    void after_set(const Attribute& row) override;

private:
    schema::GraphT lower() const;

    std::vector<std::shared_ptr<TensorDescriptor>> received_tensors_;
    std::shared_ptr<const schema::GraphBlob> received_;
    std::shared_ptr<const schema::GraphBlob> final_;
};

}  // namespace raggeddnn::c_api
