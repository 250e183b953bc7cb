/* Fails at execute, and says why. */
#define FAKE_PLUGIN "fails_execute_with_text"
#define FAKE_ENGINE "FAILS_EXECUTE_WITH_TEXT_ENGINE"
#define FAKE_API_VERSION "1.4.0"
#define FAKE_EXECUTE_STATUS HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR
#define FAKE_ERROR_TEXT "the device fell off the bus"
#include "fake_provider.h"
