// How an operation is added to a graph: its operands one by one, its results, then commit.
#pragma once

#include <string>
#include <utility>

#include "raggeddnn/graph/graph.hpp"
#include "raggeddnn/graph/ops/infer.hpp"

namespace raggeddnn::graph_ops {

// Table: the object struct of the operation's attributes, e.g. schema::SdpaAttributesT. A slot is a
// member of it that holds a tensor's uid, required or optional.
template <class Table>
class NodeDraft {
public:
    using Infer = std::function<void(Table& attributes, const InferContext& context)>;

    // `op` opens messages and names results; `name` is the node's, and replaces it where given.
    NodeDraft(Graph& graph, const char* op, const std::string& name, Table table)
        : graph_(graph), prefix_(name.empty() ? op : name) {
        graph.refuse_if_final(op);
        node_.table.name = name;
        node_.table.attributes.Set(std::move(table));
    }

    // Throws for null, and for a tensor that is not in the graph.
    template <class Slot>
    void input(const std::string& role, const TensorPtr& tensor, Slot slot) {
        require(role, tensor);
        use(role, tensor, slot);
    }

    // The same for element `index` of a slot that holds several.
    void input(const std::string& role, const TensorPtr& tensor, std::vector<int64_t> Table::* slot,
               size_t index) {
        require(role, tensor);
        node_.uses.push_back({role, tensor, [slot, index](schema::NodeT& node, int64_t uid) {
                                  std::vector<int64_t>& uids = attributes_of(node).*slot;
                                  if (uids.size() <= index) uids.resize(index + 1);
                                  uids[index] = uid;
                              }});
    }

    // The same, but null leaves the slot unset.
    template <class Slot>
    void optional_input(const std::string& role, const TensorPtr& tensor, Slot slot) {
        if (tensor) input(role, tensor, slot);
    }

    // A new virtual tensor named "op::role".
    template <class Slot>
    TensorPtr output(const std::string& role, Slot slot) {
        TensorAttributes attributes;
        attributes.set_name(prefix_ + "::" + role).set_is_virtual(true);
        const TensorPtr tensor = std::make_shared<TensorAttributes>(attributes);
        outputs_.push_back(tensor);
        use(role, tensor, slot);
        return tensor;
    }

    // Nothing is added to the graph before.
    void commit(Infer infer) {
        node_.infer = [infer = std::move(infer)](schema::NodeT& node, const InferContext& context) {
            infer(attributes_of(node), context);
        };
        for (const TensorPtr& output : outputs_) graph_.tensor(output);
        graph_.add_node(std::move(node_));
    }

    const std::string& prefix() const { return prefix_; }

private:
    static Table& attributes_of(schema::NodeT& node) {
        return *static_cast<Table*>(node.attributes.value);
    }

    void require(const std::string& role, const TensorPtr& tensor) const {
        if (!tensor) {
            fail(ErrorCode::ATTRIBUTE_NOT_SET, "[", prefix_, "] ", role,
                 " is null, expected a tensor");
        }
        if (!graph_.contains(tensor)) {
            invalid("[", prefix_, "] ", role, " is ", tensor->label(),
                    ", which is not in this graph, expected a result of graph.tensor or of an "
                    "operation");
        }
    }

    template <class Slot>
    void use(const std::string& role, const TensorPtr& tensor, Slot slot) {
        node_.uses.push_back({role, tensor, [slot](schema::NodeT& node, int64_t uid) {
                                  attributes_of(node).*slot = uid;
                              }});
    }

    Graph& graph_;
    std::string prefix_;
    OpNode node_;
    std::vector<TensorPtr> outputs_;
};

}  // namespace raggeddnn::graph_ops
