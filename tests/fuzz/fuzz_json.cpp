// A graph or plan as JSON text.
#include "check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace raggeddnn::schema;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    fuzz::refuse_or_run([&] { fuzz::round_trip_graph(graph_bytes_from_json(text)); });
    fuzz::refuse_or_run([&] { fuzz::round_trip_plan(plan_bytes_from_json(text)); });
    return 0;
}
