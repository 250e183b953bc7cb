/* Its version is no version. */
#define FAKE_PLUGIN "bad_version"
#define FAKE_ENGINE "BAD_VERSION_ENGINE"
#define FAKE_API_VERSION "1.2-beta"
#include "fake_provider.h"
