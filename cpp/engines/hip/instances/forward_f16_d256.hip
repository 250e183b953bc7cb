// Forward attention, Float16, widths up to 256.
#include "forward_instance.hpp"

namespace raggeddnn::hip {
ForwardKernel forward_f16_d256() {
    return forward_row<Float16, ForwardShape<Nvidia, 256>>(ElementKind::FLOAT16);
}
}  // namespace raggeddnn::hip
