// A file of unknown kind: what `identify` says it is, and the graph and plan inside a container.
#include "check.hpp"

namespace {

using namespace raggeddnn::schema;

void read_buffers(std::span<const uint8_t> bytes) {
    const ContainerBlob container = read_container(bytes);
    const std::vector<uint8_t> none;
    const ContainerBlob again = read_container(
        write_container(container.graph.value_or(none), container.plan.value_or(none)));
    if (again.graph != container.graph || again.plan != container.plan) std::abort();
    fuzz::refuse_or_run([&] { fuzz::round_trip_graph(container.graph.value_or(none)); });
    fuzz::refuse_or_run([&] { fuzz::round_trip_plan(container.plan.value_or(none)); });
}

void read_whatever_it_is(std::span<const uint8_t> bytes) {
    switch (identify(bytes)) {
        case BlobKind::GRAPH: fuzz::round_trip_graph(bytes); break;
        case BlobKind::EXECUTION_PLAN: fuzz::round_trip_plan(bytes); break;
        case BlobKind::GRAPH_AND_PLAN: read_buffers(bytes); break;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::refuse_or_run([&] { read_whatever_it_is({data, size}); });
    return 0;
}
