// A graph in hipDNN's wire format.
#include "check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::refuse_or_run([&] { fuzz::round_trip_graph({data, size}); });
    return 0;
}
