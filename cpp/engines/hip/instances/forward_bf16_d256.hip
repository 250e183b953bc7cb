// Forward attention, Bfloat16, widths up to 256.
#include "forward_instance.hpp"

namespace raggeddnn::hip {
ForwardKernel forward_bf16_d256() {
    return forward_row<Bfloat16, ForwardShape<Nvidia, 256>>(ElementKind::BFLOAT16);
}
}  // namespace raggeddnn::hip
