// Backward attention, Float16, widths up to 128.
#include "backward_instance.hpp"

namespace raggeddnn::hip {
BackwardRows backward_f16_d128() { return backward_rows<Float16, 128>(); }
}  // namespace raggeddnn::hip
