// Forward attention without matrix instructions, Float16.
#include "plain_instance.hpp"

namespace raggeddnn::hip {
ForwardRows plain_forward_f16() { return plain_forward_rows<Float16>(); }
}  // namespace raggeddnn::hip
