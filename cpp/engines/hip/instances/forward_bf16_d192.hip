// Forward attention, Bfloat16, widths up to 192.
#include "forward_instance.hpp"

namespace raggeddnn::hip {
ForwardKernel forward_bf16_d192() {
    return forward_row<Bfloat16, ForwardShape<Nvidia, 192>>(ElementKind::BFLOAT16);
}
}  // namespace raggeddnn::hip
