// Forward attention, Bfloat16, widths up to 96.
#include "forward_instance.hpp"

namespace raggeddnn::hip {
ForwardRows forward_bf16_d96() { return forward_rows<Bfloat16, 96>(); }
}  // namespace raggeddnn::hip
