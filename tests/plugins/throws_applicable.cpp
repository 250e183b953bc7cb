// Lets an exception out of a C function, which no plugin should.
#include <stdexcept>

#define FAKE_PLUGIN "throws_applicable"
#define FAKE_ENGINE "THROWS_APPLICABLE_ENGINE"
#define FAKE_API_VERSION "1.4.0"
#define FAKE_THROWS throw std::runtime_error("thrown across the ABI")
#include "fake_provider.h"
