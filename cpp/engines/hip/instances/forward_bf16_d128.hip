// Forward attention, Bfloat16, widths up to 128.
#include "forward_instance.hpp"

namespace raggeddnn::hip {
ForwardKernel forward_bf16_d128() {
    return forward_row<Bfloat16, ForwardShape<Nvidia, 128>>(ElementKind::BFLOAT16);
}
}  // namespace raggeddnn::hip
