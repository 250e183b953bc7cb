// Backward attention, Float16, widths up to 96.
#include "backward_instance.hpp"

namespace raggeddnn::hip {
BackwardRows backward_f16_d96() { return backward_rows<Float16, 96>(); }
}  // namespace raggeddnn::hip
