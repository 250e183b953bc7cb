/* Claims 1.1.0 and lacks what 1.1.0 added, which is optional. */
#define FAKE_PLUGIN "fake_1_1_0_no_overrides"
#define FAKE_ENGINE "FAKE_1_1_0_NO_OVERRIDES_ENGINE"
#define FAKE_API_VERSION "1.1.0"
#include "fake_provider.h"
