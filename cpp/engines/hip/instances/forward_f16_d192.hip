// Forward attention, Float16, widths up to 192.
#include "forward_instance.hpp"

namespace raggeddnn::hip {
ForwardRows forward_f16_d192() { return forward_rows<Float16, 192>(); }
}  // namespace raggeddnn::hip
