// Backward attention, Bfloat16, widths up to 128.
#include "backward_instance.hpp"

namespace raggeddnn::hip {
BackwardRows backward_bf16_d128() { return backward_rows<Bfloat16, 128>(); }
}  // namespace raggeddnn::hip
