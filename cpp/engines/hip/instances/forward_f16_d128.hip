// Forward attention, Float16, widths up to 128.
#include "forward_instance.hpp"

namespace raggeddnn::hip {
ForwardRows forward_f16_d128() { return forward_rows<Float16, 128>(); }
}  // namespace raggeddnn::hip
