/* Has the engine of fake_1_2_0.c. */
#define FAKE_PLUGIN "duplicate_of_1_2_0"
#define FAKE_ENGINE "FAKE_1_2_0_ENGINE"
#define FAKE_API_VERSION "1.4.0"
#include "fake_provider.h"
