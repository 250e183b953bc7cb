// Forward attention, Bfloat16, widths up to 256.
#include "forward_instance.hpp"

namespace raggeddnn::hip {
ForwardRows forward_bf16_d256() { return forward_rows<Bfloat16, 256>(); }
}  // namespace raggeddnn::hip
