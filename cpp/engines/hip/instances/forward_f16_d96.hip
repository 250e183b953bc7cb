// Forward attention, Float16, widths up to 96.
#include "forward_instance.hpp"

namespace raggeddnn::hip {
ForwardRows forward_f16_d96() { return forward_rows<Float16, 96>(); }
}  // namespace raggeddnn::hip
