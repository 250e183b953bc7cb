// Descriptors of operations. There is one class for all: it holds the wire's node, and a row of
// `operation_tables.cpp` says which of the node's members an attribute is.
#pragma once

#include <map>

#include "raggeddnn/backend/c_api/tensor_descriptor.hpp"

namespace raggeddnn::c_api {

struct Operation {
    hipdnnBackendDescriptorType_t descriptor_type;
    hipdnnOperationType_ext_t operation_type;
    schema::NodeAttributes tag;
    const char* kind;
    std::span<const Attribute> rows;
    void (*create)(schema::NodeT& node);  // puts the op's empty table into a node
};

// Null: there is none.
const Operation* find_operation(hipdnnBackendDescriptorType_t type);

class OperationDescriptor : public Descriptor {
public:
    explicit OperationDescriptor(const Operation& operation);
    const char* kind() const override { return operation_.kind; }
    hipdnnOperationType_ext_t operation_type() const { return operation_.operation_type; }

    // A node of a received graph, final. Of an op without a table only the name, the compute type
    // and the tensors are known.
    static std::shared_ptr<OperationDescriptor> received(const schema::NodeT& node,
                                                         const TensorTable& tensors);

    schema::NodeT node;
    // By the attribute's number, which is also the order in which they enter the graph.
    std::map<int, std::vector<std::shared_ptr<TensorDescriptor>>> tensors;

private:
    const Operation& operation_;
};

}  // namespace raggeddnn::c_api
