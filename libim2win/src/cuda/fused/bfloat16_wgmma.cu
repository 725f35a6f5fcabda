#include "cuda/fused/wgmma_halves.cuh"

namespace im2win::cuda::fused {

template <>
const Kernels<__nv_bfloat16>& bfloat16_kernels<Instructions::kWgmma>() {
  return instantiate_halves<__nv_bfloat16, Operands::kBFloat16>();
}

}  // namespace im2win::cuda::fused
