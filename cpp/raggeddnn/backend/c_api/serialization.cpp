// The exported functions that turn graphs and plans into bytes and text, and back.
#include "raggeddnn/backend/c_api/plan_descriptors.hpp"
#include "raggeddnn/backend/handle.hpp"
#include "raggeddnn/schema/json.hpp"

namespace raggeddnn::c_api {

namespace {

std::span<const uint8_t> given_bytes(const void* bytes, size_t size, const char* what) {
    not_null(bytes, what);
    if (size == 0) bad_param(what, " has 0 bytes, expected a serialized form");
    return {static_cast<const uint8_t*>(bytes), size};
}

// The two-call pattern.
void hand_out(std::span<const uint8_t> data, size_t capacity, size_t* size, void* buffer) {
    *not_null(size, "byte_size") = data.size();
    if (!buffer) return;
    if (capacity < data.size()) {
        refuse(HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "the buffer has ", capacity,
               " bytes, expected at least ", data.size());
    }
    std::memcpy(buffer, data.data(), data.size());
}

std::shared_ptr<GraphDescriptor> graph_of(hipdnnBackendDescriptor_t reference) {
    const DescriptorPtr descriptor = resolve(reference, "descriptor");
    auto graph = std::dynamic_pointer_cast<GraphDescriptor>(descriptor);
    if (!graph) {
        bad_param("got a ", descriptor->kind(), " descriptor, expected an operation graph");
    }
    return graph;
}

std::shared_ptr<PlanDescriptor> plan_of(hipdnnBackendDescriptor_t reference) {
    const DescriptorPtr descriptor = resolve(reference, "descriptor");
    auto plan = std::dynamic_pointer_cast<PlanDescriptor>(descriptor);
    if (!plan) {
        bad_param("got a ", descriptor->kind(), " descriptor, expected an execution plan");
    }
    if (!plan->is_final()) {
        refuse(HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
               "the execution plan is not final, expected a final one");
    }
    return plan;
}

bool is_container(std::span<const uint8_t> bytes) {
    constexpr size_t SMALLEST = 12;
    return bytes.size() >= SMALLEST && schema::identify(bytes) == schema::BlobKind::GRAPH_AND_PLAN;
}

std::shared_ptr<GraphDescriptor> read_graph(std::span<const uint8_t> bytes) {
    if (!is_container(bytes)) return GraphDescriptor::received(schema::GraphBlob::read(bytes));
    const schema::ContainerBlob container = schema::read_container(bytes);
    if (!container.graph) bad_param("the container holds no graph, expected one");
    return GraphDescriptor::received(schema::GraphBlob::read(*container.graph));
}

std::shared_ptr<PlanDescriptor> read_plan(std::span<const uint8_t> bytes, hipdnnHandle& handle) {
    if (is_container(bytes) && !schema::read_container(bytes).plan) {
        bad_param("the container holds no execution plan, expected one");
    }
    return PlanDescriptor::received(ExecutionPlan::deserialize(bytes, handle));
}

int contents(std::span<const uint8_t> bytes) {
    schema::BlobKind kind = schema::BlobKind::GRAPH;
    try {
        kind = schema::identify(bytes);
    } catch (const Exception&) {  // nothing recognizable: reading it as a graph tells why
    }
    if (kind == schema::BlobKind::GRAPH) return HIPDNN_SERIALIZED_CONTENT_GRAPH;
    if (kind == schema::BlobKind::EXECUTION_PLAN) return HIPDNN_SERIALIZED_CONTENT_EXECUTION_PLAN;
    const schema::ContainerBlob container = schema::read_container(bytes);
    return (container.graph ? HIPDNN_SERIALIZED_CONTENT_GRAPH : 0) |
           (container.plan ? HIPDNN_SERIALIZED_CONTENT_EXECUTION_PLAN : 0);
}

std::span<const uint8_t> with_terminator(const std::string& text) {
    return {reinterpret_cast<const uint8_t*>(text.c_str()), text.size() + 1};
}

}  // namespace

}  // namespace raggeddnn::c_api

using namespace raggeddnn::c_api;
namespace schema = raggeddnn::schema;

extern "C" {

hipdnnStatus_t hipdnnBackendCreateAndDeserializeGraph_ext(hipdnnBackendDescriptor_t* descriptor,
                                                          const uint8_t* bytes, size_t byte_size) {
    return guarded(__func__, [&] {
        not_null(descriptor, "descriptor");
        *descriptor = new_reference(read_graph(given_bytes(bytes, byte_size, "bytes")));
    });
}

hipdnnStatus_t hipdnnBackendGetSerializedBinaryGraph_ext(hipdnnBackendDescriptor_t descriptor,
                                                         size_t capacity, size_t* byte_size,
                                                         uint8_t* bytes) {
    return guarded(__func__, [&] {
        hand_out(graph_of(descriptor)->blob()->bytes(), capacity, byte_size, bytes);
    });
}

hipdnnStatus_t hipdnnBackendGetSerializedJsonGraph_ext(hipdnnBackendDescriptor_t descriptor,
                                                       size_t capacity, size_t* byte_size,
                                                       char* text) {
    return guarded(__func__, [&] {
        const std::string json = schema::graph_to_json(graph_of(descriptor)->blob()->graph());
        hand_out(with_terminator(json), capacity, byte_size, text);
    });
}

hipdnnStatus_t hipdnnBackendCreateAndDeserializeJsonGraph_ext(hipdnnBackendDescriptor_t* descriptor,
                                                              const char* text, size_t byte_size) {
    return guarded(__func__, [&] {
        not_null(descriptor, "descriptor");
        const std::span<const uint8_t> given = given_bytes(text, byte_size, "text");
        std::string_view json(text, given.size());
        while (!json.empty() && json.back() == '\0') json.remove_suffix(1);
        *descriptor = new_reference(read_graph(schema::graph_bytes_from_json(json)));
    });
}

hipdnnStatus_t hipdnnBackendGetSerializedExecutionPlan_ext(hipdnnBackendDescriptor_t descriptor,
                                                           size_t capacity, size_t* byte_size,
                                                           uint8_t* bytes) {
    return guarded(__func__, [&] {
        hand_out(plan_of(descriptor)->plan->serialize(), capacity, byte_size, bytes);
    });
}

hipdnnStatus_t hipdnnBackendCreateAndDeserializeExecutionPlan_ext(
    hipdnnHandle_t handle, hipdnnBackendDescriptor_t* descriptor, const uint8_t* bytes,
    size_t byte_size) {
    return guarded(__func__, [&] {
        hipdnnHandle& live = resolve(handle);
        not_null(descriptor, "descriptor");
        *descriptor = new_reference(read_plan(given_bytes(bytes, byte_size, "bytes"), live));
    });
}

hipdnnStatus_t hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(
    hipdnnBackendDescriptor_t graph, hipdnnBackendDescriptor_t execution_plan, size_t capacity,
    size_t* byte_size, uint8_t* bytes) {
    return guarded(__func__, [&] {
        const auto blob = graph_of(graph)->blob();
        std::vector<uint8_t> plan;
        if (execution_plan) plan = plan_of(execution_plan)->plan->serialize();
        hand_out(schema::write_container(blob->bytes(), plan), capacity, byte_size, bytes);
    });
}

hipdnnStatus_t hipdnnBackendGetSerializedBinaryContents_ext(const uint8_t* bytes, size_t byte_size,
                                                            int* content_flags) {
    return guarded(__func__, [&] {
        not_null(bytes, "bytes");
        *not_null(content_flags, "content_flags") = contents({bytes, byte_size});
    });
}

}  // extern "C"
