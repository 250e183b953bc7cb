/* Preferred to any other on the CPU. */
#define FAKE_PLUGIN "fake_high_priority"
#define FAKE_ENGINE "FAKE_HIGH_PRIORITY_ENGINE"
#define FAKE_API_VERSION "1.4.0"
#define FAKE_PRIORITY 1000
#include "fake_provider.h"
