// Forward attention, Float16, widths up to 64.
#include "forward_instance.hpp"

namespace raggeddnn::hip {
ForwardRows forward_f16_d64() { return forward_rows<Float16, 64>(); }
}  // namespace raggeddnn::hip
