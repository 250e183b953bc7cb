/* The first that may be given ragged tensors. */
#define FAKE_PLUGIN "fake_1_3_0"
#define FAKE_ENGINE "FAKE_1_3_0_ENGINE"
#define FAKE_API_VERSION "1.3.0"
#define FAKE_OVERRIDES
#include "fake_provider.h"
