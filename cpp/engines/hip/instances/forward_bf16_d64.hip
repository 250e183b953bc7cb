// Forward attention, Bfloat16, widths up to 64.
#include "forward_instance.hpp"

namespace raggeddnn::hip {
ForwardRows forward_bf16_d64() { return forward_rows<Bfloat16, 64>(); }
}  // namespace raggeddnn::hip
