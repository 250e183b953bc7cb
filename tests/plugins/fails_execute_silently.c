/* Fails at execute, without a word. */
#define FAKE_PLUGIN "fails_execute_silently"
#define FAKE_ENGINE "FAILS_EXECUTE_SILENTLY_ENGINE"
#define FAKE_API_VERSION "1.4.0"
#define FAKE_EXECUTE_STATUS HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR
#include "fake_provider.h"
