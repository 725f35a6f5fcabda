#include "cuda/fused/table.cuh"

namespace im2win::cuda::fused {

template <>
const Kernels<float>& split_kernels<Instructions::kWgmma>() {
  return instantiate<
      float, Operands::kSplit, Instructions::kWgmma, KernelShape{128, 80}, KernelShape{128, 104},
      KernelShape{128, 120, 120, 1}, KernelShape{128, 160},
      KernelShape{.filters = 128, .columns = 112, .held_units = 4}, KernelShape{128, 168, 168, 1},
      KernelShape{64, 80}, KernelShape{64, 104}, KernelShape{64, 120, 120, 1}, KernelShape{64, 160},
      KernelShape{64, 168, 168, 1}, KernelShape{.filters = 64, .columns = 80, .held_units = 6}>();
}

}  // namespace im2win::cuda::fused
