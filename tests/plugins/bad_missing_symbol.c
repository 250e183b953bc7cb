/* Lacks a function that every engine plugin has. */
#define FAKE_PLUGIN "bad_missing_symbol"
#define FAKE_ENGINE "BAD_MISSING_SYMBOL_ENGINE"
#define FAKE_API_VERSION "1.4.0"
#define FAKE_LACKS_SET_STREAM
#include "fake_provider.h"
