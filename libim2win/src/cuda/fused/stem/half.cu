#include "cuda/fused/stem/table.cuh"

namespace im2win::cuda::fused::stem {

const Kernels<__half>& half_kernels() {
  return instantiate<__half, Operands::kHalf, kNarrow, kWide, kPixelMajorHalves, kDenseRaw, kDense,
                     kDenseRunsHalves>();
}

}  // namespace im2win::cuda::fused::stem
