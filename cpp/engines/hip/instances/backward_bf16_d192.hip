// Backward attention, Bfloat16, widths up to 192.
#include "backward_instance.hpp"

namespace raggeddnn::hip {
BackwardRows backward_bf16_d192() { return backward_rows<Bfloat16, 192>(); }
}  // namespace raggeddnn::hip
