// An execution plan, and what engines and the backend tell each other about configuration.
#include "check.hpp"

namespace {

using namespace raggeddnn::schema;

void read_engine_config(std::span<const uint8_t> bytes) {
    const EngineConfigBlob blob = EngineConfigBlob::read(bytes);
    const std::unique_ptr<EngineConfigT> tree(blob.config().UnPack());
    EngineConfigBlob::read(fuzz::packed<EngineConfig>(*tree));
}

void read_engine_details(std::span<const uint8_t> bytes) {
    const EngineDetailsBlob blob = EngineDetailsBlob::read(bytes);
    const std::unique_ptr<EngineDetailsT> tree(blob.details().UnPack());
    EngineDetailsBlob::read(fuzz::packed<EngineDetails>(*tree));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::span<const uint8_t> bytes(data, size);
    fuzz::refuse_or_run([&] { fuzz::round_trip_plan(bytes); });
    fuzz::refuse_or_run([&] { read_engine_config(bytes); });
    fuzz::refuse_or_run([&] { read_engine_details(bytes); });
    return 0;
}
