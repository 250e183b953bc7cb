// Forward attention, Float16, widths up to 128.
#include "forward_instance.hpp"

namespace raggeddnn::hip {
ForwardKernel forward_f16_d128() {
    return forward_row<Float16, ForwardShape<Nvidia, 128>>(ElementKind::FLOAT16);
}
}  // namespace raggeddnn::hip
