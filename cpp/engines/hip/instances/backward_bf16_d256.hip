// Backward attention, Bfloat16, widths up to 256.
#include "backward_instance.hpp"

namespace raggeddnn::hip {
BackwardRows backward_bf16_d256() { return backward_rows<Bfloat16, 256>(); }
}  // namespace raggeddnn::hip
