// Forward attention, Bfloat16, widths up to 128.
#include "forward_instance.hpp"

namespace raggeddnn::hip {
ForwardRows forward_bf16_d128() { return forward_rows<Bfloat16, 128>(); }
}  // namespace raggeddnn::hip
