// Backward attention without matrix instructions, Float16.
#include "plain_instance.hpp"

namespace raggeddnn::hip {
BackwardRows plain_backward_f16() { return plain_backward_rows<Float16>(); }
}  // namespace raggeddnn::hip
