/* Fails when asked about a graph, and says why. */
#define FAKE_PLUGIN "fails_applicable_with_text"
#define FAKE_ENGINE "FAILS_APPLICABLE_WITH_TEXT_ENGINE"
#define FAKE_API_VERSION "1.4.0"
#define FAKE_APPLICABLE_STATUS HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR
#define FAKE_ERROR_TEXT "the kernel database is locked"
#include "fake_provider.h"
