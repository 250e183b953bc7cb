// Forward attention, Float16, widths up to 64.
#include "forward_instance.hpp"

namespace raggeddnn::hip {
ForwardKernel forward_f16_d64() {
    return forward_row<Float16, ForwardShape<Nvidia, 64>>(ElementKind::FLOAT16);
}
}  // namespace raggeddnn::hip
