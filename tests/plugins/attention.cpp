// The honest provider of attention.hpp, as a plugin.
#include "attention.hpp"

RAGGEDDNN_ENGINE_PLUGIN("attention", "1.0.0", attention::AttentionEngine)
