#include "cuda/fused/stem/table.cuh"

namespace im2win::cuda::fused::stem {

const Kernels<float>& tf32_kernels() {
  return instantiate<float, Operands::kTf32, kNarrow, kWideTf32, kPixelMajor>();
}

}  // namespace im2win::cuda::fused::stem
