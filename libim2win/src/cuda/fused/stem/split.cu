#include "cuda/fused/stem/table.cuh"

namespace im2win::cuda::fused::stem {

const Kernels<float>& split_kernels() {
  return instantiate<float, Operands::kSplit, kNarrow, kPixelMajor, kDense, kDenseRuns>();
}

}  // namespace im2win::cuda::fused::stem
