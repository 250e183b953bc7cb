/* Reports four billion engines. */
#define FAKE_PLUGIN "bad_engine_count"
#define FAKE_ENGINE "BAD_ENGINE_COUNT_ENGINE"
#define FAKE_API_VERSION "1.4.0"
#define FAKE_ENGINE_COUNT 4000000000u
#include "fake_provider.h"
