/* The first with override shapes. */
#define FAKE_PLUGIN "fake_1_1_0"
#define FAKE_ENGINE "FAKE_1_1_0_ENGINE"
#define FAKE_API_VERSION "1.1.0"
#define FAKE_OVERRIDES
#include "fake_provider.h"
