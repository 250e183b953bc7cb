// Forward attention, Float16, widths up to 256.
#include "forward_instance.hpp"

namespace raggeddnn::hip {
ForwardRows forward_f16_d256() { return forward_rows<Float16, 256>(); }
}  // namespace raggeddnn::hip
