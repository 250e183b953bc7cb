/* Preferred to no other on the CPU. */
#define FAKE_PLUGIN "fake_low_priority"
#define FAKE_ENGINE "FAKE_LOW_PRIORITY_ENGINE"
#define FAKE_API_VERSION "1.4.0"
#define FAKE_PRIORITY -1000
#include "fake_provider.h"
