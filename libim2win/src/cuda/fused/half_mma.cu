#include "cuda/fused/table.cuh"

namespace im2win::cuda::fused {

template <>
const Kernels<__half>& half_kernels<Instructions::kMma>() {
  return instantiate<__half, Operands::kHalf, Instructions::kMma, KernelShape{128, 80},
                     KernelShape{128, 160}, KernelShape{64, 80}, KernelShape{64, 160}>();
}

}  // namespace im2win::cuda::fused
