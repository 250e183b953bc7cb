/* Says that its buffers are on a GPU. */
#define FAKE_PLUGIN "fake_on_hip"
#define FAKE_ENGINE "FAKE_ON_HIP_ENGINE"
#define FAKE_API_VERSION "1.4.0"
#define FAKE_DEVICE "hip"
#define FAKE_PRIORITY 2000
#include "fake_provider.h"
