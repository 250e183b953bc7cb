/* Calls itself a heuristic. */
#define FAKE_PLUGIN "bad_type"
#define FAKE_ENGINE "BAD_TYPE_ENGINE"
#define FAKE_API_VERSION "1.4.0"
#define FAKE_TYPE HIPDNN_PLUGIN_TYPE_HEURISTIC
#include "fake_provider.h"
