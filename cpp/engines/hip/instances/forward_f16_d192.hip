// Forward attention, Float16, widths up to 192.
#include "forward_instance.hpp"

namespace raggeddnn::hip {
ForwardKernel forward_f16_d192() {
    return forward_row<Float16, ForwardShape<Nvidia, 192>>(ElementKind::FLOAT16);
}
}  // namespace raggeddnn::hip
