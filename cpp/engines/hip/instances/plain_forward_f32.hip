// Forward attention without matrix instructions, Float32.
#include "plain_instance.hpp"

namespace raggeddnn::hip {
ForwardRows plain_forward_f32() { return plain_forward_rows<Float32>(); }
}  // namespace raggeddnn::hip
