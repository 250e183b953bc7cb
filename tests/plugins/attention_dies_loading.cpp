// The provider of attention.hpp in a library that takes the process down while it is loaded.
#include <cstdlib>

#include "attention.hpp"

namespace {

__attribute__((constructor)) void die() { std::abort(); }

}  // namespace

RAGGEDDNN_ENGINE_PLUGIN("attention_dies_loading", "1.0.0", attention::AttentionEngine)
