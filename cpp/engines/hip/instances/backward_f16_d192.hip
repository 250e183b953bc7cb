// Backward attention, Float16, widths up to 192.
#include "backward_instance.hpp"

namespace raggeddnn::hip {
BackwardRows backward_f16_d192() { return backward_rows<Float16, 192>(); }
}  // namespace raggeddnn::hip
