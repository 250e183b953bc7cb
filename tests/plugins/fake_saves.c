/* Turns its plans into bytes, with the uids of the runtime scalars in a payload of its own. */
#define FAKE_PLUGIN "fake_saves"
#define FAKE_ENGINE "FAKE_SAVES_ENGINE"
#define FAKE_API_VERSION "1.2.0"
#define FAKE_SAVES
#include "fake_provider.h"
