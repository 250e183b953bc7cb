// Backward attention, Bfloat16, widths up to 64.
#include "backward_instance.hpp"

namespace raggeddnn::hip {
BackwardRows backward_bf16_d64() { return backward_rows<Bfloat16, 64>(); }
}  // namespace raggeddnn::hip
