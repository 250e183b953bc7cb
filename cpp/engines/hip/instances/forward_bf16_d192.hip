// Forward attention, Bfloat16, widths up to 192.
#include "forward_instance.hpp"

namespace raggeddnn::hip {
ForwardRows forward_bf16_d192() { return forward_rows<Bfloat16, 192>(); }
}  // namespace raggeddnn::hip
