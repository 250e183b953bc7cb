/* Reports four billion applicable engines. */
#define FAKE_PLUGIN "bad_applicable_count"
#define FAKE_ENGINE "BAD_APPLICABLE_COUNT_ENGINE"
#define FAKE_API_VERSION "1.4.0"
#define FAKE_APPLICABLE_COUNT 4000000000u
#include "fake_provider.h"
