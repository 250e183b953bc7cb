/* Its engine's id is not the hash of its name. */
#define FAKE_PLUGIN "bad_name"
#define FAKE_ENGINE "BAD_NAME_ENGINE"
#define FAKE_API_VERSION "1.4.0"
#define FAKE_ENGINE_ID 12345
#include "fake_provider.h"
