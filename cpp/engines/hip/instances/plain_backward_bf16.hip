// Backward attention without matrix instructions, Bfloat16.
#include "plain_instance.hpp"

namespace raggeddnn::hip {
BackwardRows plain_backward_bf16() { return plain_backward_rows<Bfloat16>(); }
}  // namespace raggeddnn::hip
