#include "cuda/fused/stem/table.cuh"

namespace im2win::cuda::fused::stem {
namespace {

template <class Element, Operands kOperands>
const Kernels<Element>& instantiate_halves() {
  return instantiate<Element, kOperands, kNarrow, kWide, kPixelMajorHalves, kDenseRaw, kDense,
                     kDenseRunsHalves>();
}

}  // namespace

const Kernels<__half>& half_kernels() { return instantiate_halves<__half, Operands::kHalf>(); }
const Kernels<__nv_bfloat16>& bfloat16_kernels() {
  return instantiate_halves<__nv_bfloat16, Operands::kBFloat16>();
}

}  // namespace im2win::cuda::fused::stem
