#include "cuda/fused/wgmma_halves.cuh"

namespace im2win::cuda::fused {

template <>
const Kernels<__half>& half_kernels<Instructions::kWgmma>() {
  return instantiate_halves<__half, Operands::kHalf>();
}

}  // namespace im2win::cuda::fused
