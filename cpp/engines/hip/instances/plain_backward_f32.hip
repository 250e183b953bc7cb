// Backward attention without matrix instructions, Float32.
#include "plain_instance.hpp"

namespace raggeddnn::hip {
BackwardRows plain_backward_f32() { return plain_backward_rows<Float32>(); }
}  // namespace raggeddnn::hip
