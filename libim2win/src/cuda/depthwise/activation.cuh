// What depthwise kernels do in registers between sums and outputs: a clamp, or any activation before one without
// bounds. Residuals and factors are for the kernels of any window.
#pragma once

#include "cuda/depthwise/sum.cuh"

namespace im2win::cuda {

/// Whether a kernel has code for a GPU. Where the epilogue is known to be a clamp, products of the next row are not kept
/// from beginning before outputs are written: up to a fifth less time, for as much code again, of 9.0 alone.
constexpr bool has_code([[maybe_unused]] bool is_clamp) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 900
  return true;
#else
  return !is_clamp;
#endif
}

/// The activation of some sums with their biases, if it is more than a clamp, which is left.
template <bool kIsClamp, class Element, int kCount>
__device__ __forceinline__ void activate(const DepthwiseArguments<Element, float>& a,
                                         float (&sums)[kCount]) {
  if (!kIsClamp && !a.clamps) a.outputs.activate_few(sums);
}

}  // namespace im2win::cuda
