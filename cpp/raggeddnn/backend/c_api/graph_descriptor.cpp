#include "raggeddnn/backend/c_api/graph_descriptor.hpp"

#include <unordered_map>

#include "raggeddnn/backend/c_api/fields.hpp"
#include "raggeddnn/backend/finalize.hpp"
#include "raggeddnn/backend/plugin_registry.hpp"
#include "raggeddnn/schema/graph_view.hpp"
#include "raggeddnn/schema/uids.hpp"

namespace raggeddnn::c_api {

namespace {

using Table = schema::GraphT;

GraphDescriptor& self(Descriptor& descriptor) { return static_cast<GraphDescriptor&>(descriptor); }
const GraphDescriptor& self(const Descriptor& descriptor) {
    return static_cast<const GraphDescriptor&>(descriptor);
}

void set_handle(Descriptor& descriptor, const Input& input) {
    const auto handle = input.one<hipdnnHandle_t>();
    resolve(handle);
    self(descriptor).handle_ = handle;
}

// Appends: several calls add up.
void add_operations(Descriptor& descriptor, const Input& input) {
    std::vector<std::shared_ptr<OperationDescriptor>> added;
    for (const DescriptorPtr& given : input.descriptors()) {
        auto operation = std::dynamic_pointer_cast<OperationDescriptor>(given);
        if (!operation) {
            refuse(HIPDNN_STATUS_NOT_SUPPORTED, "OPERATIONGRAPH_OPS got a ", given->kind(),
                   " descriptor, expected operations");
        }
        added.push_back(std::move(operation));
    }
    auto& operations = self(descriptor).operations;
    operations.insert(operations.end(), added.begin(), added.end());
}

void get_operations(const Descriptor& descriptor, const Output& output) {
    const auto& operations = self(descriptor).operations;
    output.put_descriptors({operations.begin(), operations.end()});
}

void get_engine_count(const Descriptor&, const Output& output) {
    output.put_one(static_cast<int64_t>(backend::PluginRegistry::instance().engines().size()));
}

constexpr Attribute ROWS[] = {
    {RAGGEDDNN_ATTRIBUTE(OPERATIONGRAPH_HANDLE), HIPDNN_TYPE_HANDLE, set_handle, nullptr,
     Need::REQUIRED},
    {RAGGEDDNN_ATTRIBUTE(OPERATIONGRAPH_OPS), HIPDNN_TYPE_BACKEND_DESCRIPTOR, add_operations,
     get_operations},
    {RAGGEDDNN_ATTRIBUTE(OPERATIONGRAPH_ENGINE_GLOBAL_COUNT), HIPDNN_TYPE_INT64, nullptr,
     get_engine_count},
    field<&Table::compute_data_type>(RAGGEDDNN_ATTRIBUTE(OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT)),
    field<&Table::intermediate_data_type>(
        RAGGEDDNN_ATTRIBUTE(OPERATIONGRAPH_INTERMEDIATE_DATA_TYPE_EXT)),
    field<&Table::io_data_type>(RAGGEDDNN_ATTRIBUTE(OPERATIONGRAPH_IO_DATA_TYPE_EXT)),
    field<&Table::preferred_engine_id>(RAGGEDDNN_ATTRIBUTE(OPERATIONGRAPH_PREFERRED_ENGINE_ID_EXT)),
    field<&Table::name>(RAGGEDDNN_ATTRIBUTE(OPERATIONGRAPH_NAME_EXT)),
    field<&Table::is_override_shape_enabled>(
        RAGGEDDNN_ATTRIBUTE(OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT)),
    field<&Table::is_runtime_default_override_enabled>(
        RAGGEDDNN_ATTRIBUTE(OPERATIONGRAPH_IS_RUNTIME_DEFAULT_OVERRIDE_ENABLED_RAGGEDDNN)),
};

std::shared_ptr<const schema::GraphBlob> read(std::span<const uint8_t> bytes) {
    return std::make_shared<const schema::GraphBlob>(schema::GraphBlob::read(bytes));
}

// Adds a tensor once, after the offsets that it needs.
class TensorCollector {
public:
    explicit TensorCollector(Table& graph) : graph_(graph) {}

    void add(const std::shared_ptr<TensorDescriptor>& tensor) {
        const auto [found, is_new] = seen_.emplace(tensor->table.uid, tensor.get());
        if (!is_new) {
            if (found->second == tensor.get()) return;
            bad_param("operation graph: ", found->second->label(), " and ", tensor->label(),
                      " are two descriptors with one uid, expected one descriptor");
        }
        if (tensor->ragged_offset) add(tensor->ragged_offset);
        graph_.tensors.push_back(std::make_unique<schema::TensorAttributesT>(tensor->table));
    }

private:
    Table& graph_;
    std::unordered_map<int64_t, const TensorDescriptor*> seen_;
};

}  // namespace

GraphDescriptor::GraphDescriptor() : Descriptor(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, ROWS) {}

std::shared_ptr<GraphDescriptor> GraphDescriptor::received(schema::GraphBlob blob) {
    auto graph = std::make_shared<GraphDescriptor>();
    graph->received_ = std::make_shared<const schema::GraphBlob>(std::move(blob));
    graph->received_->graph().UnPackTo(&graph->table);
    const TensorTable tensors(graph->table);
    for (const auto& node : graph->table.nodes) {
        graph->operations.push_back(OperationDescriptor::received(*node, tensors));
    }
    graph->received_tensors_ = tensors.in_order();
    graph->table.tensors.clear();
    graph->table.nodes.clear();
    return graph;
}

// A received graph that is changed is written anew, without what its bytes held beyond this
// version's fields; that must not get lost silently.
void GraphDescriptor::before_set(const Attribute& row) const {
    if (row.name == HIPDNN_ATTR_OPERATIONGRAPH_HANDLE || !received_) return;
    if (!received_->unknown_slots().empty()) {
        refuse(HIPDNN_STATUS_NOT_SUPPORTED, row.label,
               " would be set in a received graph that holds ", received_->unknown_slots().front(),
               ", which this version cannot write");
    }
}

void GraphDescriptor::after_set(const Attribute& row) {
    if (row.name != HIPDNN_ATTR_OPERATIONGRAPH_HANDLE) received_.reset();
}

Table GraphDescriptor::lower() const {
    Table graph = table;
    TensorCollector tensors(graph);
    for (const auto& tensor : received_tensors_) tensors.add(tensor);
    for (const auto& operation : operations) {
        for (const auto& [name, used] : operation->tensors) {
            for (const auto& tensor : used) tensors.add(tensor);
        }
        graph.nodes.push_back(std::make_unique<schema::NodeT>(operation->node));
    }
    return graph;
}

void GraphDescriptor::on_finalize() {
    resolve(handle_);
    if (operations.empty()) {
        bad_param("operation graph: OPERATIONGRAPH_OPS is not set, expected before finalization");
    }
    auto made = received_ ? received_ : read(backend::finalize(lower()));
    schema::check_extents_are_given(schema::GraphView(made->bytes().data(), made->bytes().size()));
    final_ = std::move(made);
}

std::shared_ptr<const schema::GraphBlob> GraphDescriptor::blob() const {
    if (final_) return final_;
    if (received_) return received_;
    const std::vector<uint8_t> minted = backend::finalize(lower());
    if (table.id) return read(minted);
    Table graph;
    schema::GetGraph(minted.data())->UnPackTo(&graph);
    graph.id.reset();
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(schema::CreateGraph(builder, &graph));
    return read({builder.GetBufferPointer(), builder.GetSize()});
}

}  // namespace raggeddnn::c_api
