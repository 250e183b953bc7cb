/* The first that may be given multipliers. Named as ours are: it has a short name, 'fake'. */
#define FAKE_PLUGIN "fake_1_4_0"
#define FAKE_ENGINE "RAGGEDDNN_FAKE_ENGINE"
#define FAKE_API_VERSION "1.4.0"
#define FAKE_OVERRIDES
#include "fake_provider.h"
