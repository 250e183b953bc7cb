/* Of an API to come. */
#define FAKE_PLUGIN "bad_major"
#define FAKE_ENGINE "BAD_MAJOR_ENGINE"
#define FAKE_API_VERSION "2.0.0"
#include "fake_provider.h"
