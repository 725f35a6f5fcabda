#include "cuda/fused/table.cuh"

namespace im2win::cuda::fused {

template <>
const Kernels<float>& tf32_kernels<Instructions::kMma>() {
  return instantiate<float, Operands::kTf32, Instructions::kMma, KernelShape{128, 80},
                     KernelShape{128, 160}, KernelShape{64, 80}, KernelShape{64, 160}>();
}

}  // namespace im2win::cuda::fused
