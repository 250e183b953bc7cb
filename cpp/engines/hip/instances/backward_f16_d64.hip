// Backward attention, Float16, widths up to 64.
#include "backward_instance.hpp"

namespace raggeddnn::hip {
BackwardRows backward_f16_d64() { return backward_rows<Float16, 64>(); }
}  // namespace raggeddnn::hip
