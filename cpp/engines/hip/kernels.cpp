#include "kernels.hpp"

#include <vector>

namespace raggeddnn::hip {

ForwardRows forward_bf16_d64();
ForwardRows forward_bf16_d96();
ForwardRows forward_bf16_d128();
ForwardRows forward_bf16_d192();
ForwardRows forward_bf16_d256();
ForwardRows forward_f16_d64();
ForwardRows forward_f16_d96();
ForwardRows forward_f16_d128();
ForwardRows forward_f16_d192();
ForwardRows forward_f16_d256();
ForwardRows plain_forward_f32();
ForwardRows plain_forward_bf16();
ForwardRows plain_forward_f16();
BackwardRows backward_bf16_d64();
BackwardRows backward_bf16_d96();
BackwardRows backward_bf16_d128();
BackwardRows backward_bf16_d192();
BackwardRows backward_bf16_d256();
BackwardRows backward_f16_d64();
BackwardRows backward_f16_d96();
BackwardRows backward_f16_d128();
BackwardRows backward_f16_d192();
BackwardRows backward_f16_d256();
BackwardRows plain_backward_f32();
BackwardRows plain_backward_bf16();
BackwardRows plain_backward_f16();

ForwardRows forward_kernels() {
    static const std::vector<ForwardKernel> kernels = joined<ForwardKernel>({
        forward_bf16_d64(),
        forward_bf16_d96(),
        forward_bf16_d128(),
        forward_bf16_d192(),
        forward_bf16_d256(),
        forward_f16_d64(),
        forward_f16_d96(),
        forward_f16_d128(),
        forward_f16_d192(),
        forward_f16_d256(),
        plain_forward_f32(),
        plain_forward_bf16(),
        plain_forward_f16(),
    });
    return kernels;
}

BackwardRows backward_kernels() {
    static const std::vector<BackwardKernel> kernels = joined<BackwardKernel>({
        backward_bf16_d64(),
        backward_bf16_d96(),
        backward_bf16_d128(),
        backward_bf16_d192(),
        backward_bf16_d256(),
        backward_f16_d64(),
        backward_f16_d96(),
        backward_f16_d128(),
        backward_f16_d192(),
        backward_f16_d256(),
        plain_backward_f32(),
        plain_backward_bf16(),
        plain_backward_f16(),
    });
    return kernels;
}

}  // namespace raggeddnn::hip
