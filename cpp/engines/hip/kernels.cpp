#include "kernels.hpp"

namespace raggeddnn::hip {

ForwardKernel forward_bf16_d64();
ForwardKernel forward_bf16_d128();
ForwardKernel forward_bf16_d192();
ForwardKernel forward_bf16_d256();
ForwardKernel forward_f16_d64();
ForwardKernel forward_f16_d128();
ForwardKernel forward_f16_d192();
ForwardKernel forward_f16_d256();

std::span<const ForwardKernel> forward_kernels() {
    static const ForwardKernel kernels[] = {
        forward_bf16_d64(), forward_bf16_d128(), forward_bf16_d192(), forward_bf16_d256(),
        forward_f16_d64(),  forward_f16_d128(),  forward_f16_d192(),  forward_f16_d256(),
    };
    return kernels;
}

}  // namespace raggeddnn::hip
