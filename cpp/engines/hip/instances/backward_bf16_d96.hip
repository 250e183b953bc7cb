// Backward attention, Bfloat16, widths up to 96.
#include "backward_instance.hpp"

namespace raggeddnn::hip {
BackwardRows backward_bf16_d96() { return backward_rows<Bfloat16, 96>(); }
}  // namespace raggeddnn::hip
