#include "cuda/fused/table.cuh"

namespace im2win::cuda::fused {

template <>
const Kernels<__nv_bfloat16>& bfloat16_kernels<Instructions::kMma>() {
  return instantiate<__nv_bfloat16, Operands::kBFloat16, Instructions::kMma, KernelShape{128, 80},
                     KernelShape{128, 160}, KernelShape{64, 80}, KernelShape{64, 160}>();
}

}  // namespace im2win::cuda::fused
