/* Fails when asked about a graph, without a word. */
#define FAKE_PLUGIN "fails_applicable_silently"
#define FAKE_ENGINE "FAILS_APPLICABLE_SILENTLY_ENGINE"
#define FAKE_API_VERSION "1.4.0"
#define FAKE_APPLICABLE_STATUS HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR
#include "fake_provider.h"
