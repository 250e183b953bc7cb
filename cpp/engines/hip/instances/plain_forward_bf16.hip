// Forward attention without matrix instructions, Bfloat16.
#include "plain_instance.hpp"

namespace raggeddnn::hip {
ForwardRows plain_forward_bf16() { return plain_forward_rows<Bfloat16>(); }
}  // namespace raggeddnn::hip
