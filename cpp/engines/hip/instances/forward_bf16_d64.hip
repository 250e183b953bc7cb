// Forward attention, Bfloat16, widths up to 64.
#include "forward_instance.hpp"

namespace raggeddnn::hip {
ForwardKernel forward_bf16_d64() {
    return forward_row<Bfloat16, ForwardShape<Nvidia, 64>>(ElementKind::BFLOAT16);
}
}  // namespace raggeddnn::hip
