#include "cuda/fused/table.cuh"

namespace im2win::cuda::fused {

template <>
const Kernels<float>& split_kernels<Instructions::kMma>() {
  return instantiate<float, Operands::kSplit, Instructions::kMma, KernelShape{128, 80},
                     KernelShape{64, 80}>();
}

}  // namespace im2win::cuda::fused
