#include "cuda/fused/stem/table.cuh"

namespace im2win::cuda::fused::stem {

const Kernels<__nv_bfloat16>& bfloat16_kernels() {
  return instantiate<__nv_bfloat16, Operands::kBFloat16, kNarrow, kWide, kPixelMajorHalves,
                     kDenseRaw, kDense, kDenseRunsHalves>();
}

}  // namespace im2win::cuda::fused::stem
