/* The first that may be given runtime scalars. */
#define FAKE_PLUGIN "fake_1_2_0"
#define FAKE_ENGINE "FAKE_1_2_0_ENGINE"
#define FAKE_API_VERSION "1.2.0"
#define FAKE_OVERRIDES
#include "fake_provider.h"
