// Backward attention, Float16, widths up to 256.
#include "backward_instance.hpp"

namespace raggeddnn::hip {
BackwardRows backward_f16_d256() { return backward_rows<Float16, 256>(); }
}  // namespace raggeddnn::hip
