#include "cuda/fused/table.cuh"

namespace im2win::cuda::fused {

template <>
const Kernels<float>& tf32_kernels<Instructions::kWgmma>() {
  return instantiate<float, Operands::kTf32, Instructions::kWgmma, KernelShape{128, 104},
                     KernelShape{128, 120}, KernelShape{128, 144}, KernelShape{128, 200},
                     KernelShape{128, 240, 1}, KernelShape{64, 80}, KernelShape{64, 160}>();
}

}  // namespace im2win::cuda::fused
