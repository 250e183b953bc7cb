/* A provider from before the version symbol. */
#define FAKE_PLUGIN "fake_1_0_0"
#define FAKE_ENGINE "FAKE_1_0_0_ENGINE"
#include "fake_provider.h"
