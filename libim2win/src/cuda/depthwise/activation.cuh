// What depthwise kernels do in registers between sums and outputs: a clamp, or any activation before one without
// bounds. Residuals and factors are for the kernels of any window.
#pragma once

#include "cuda/depthwise/sum.cuh"

namespace im2win::cuda {

/// Whether an epilogue is a bias and an activation: kernels with full registers take no others.
inline bool only_activates(const Problem& problem) {
  return problem.alpha == 1 && !problem.has_residual;
}

/// Whether a kernel has code for a GPU. Where the epilogue is known to be a clamp, products of the next row are not kept
/// from beginning before outputs are written: up to a fifth less time, for as much code again, of 9.0 alone.
constexpr bool has_code([[maybe_unused]] bool is_clamp) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 900
  return true;
#else
  return !is_clamp;
#endif
}

template <im2win_activation kActivation, int kCount>
__device__ __forceinline__ void activate_all(Epilogue<float> epilogue, float (&x)[kCount]) {
  epilogue.activation = kActivation;  // known at compile time from here on
#pragma unroll
  for (float& each : x) each = epilogue.activated(each);
}

/// One copy of every activation; registers have no run-time index, so each turn selects.
template <int kCount>
__device__ __forceinline__ void activate_each(const Epilogue<float>& epilogue, float (&x)[kCount]) {
#pragma unroll 1
  for (int turn = 0; turn < kCount; ++turn) {
    float value = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (i == turn) value = x[i];
    value = epilogue.activated(value);
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (i == turn) x[i] = value;
  }
}

/// The activation of some sums with their biases, if it is more than a clamp, which is left. Those that often follow
/// are there for each; it calls nothing, as registers are full.
template <bool kIsClamp, class Element, int kCount>
__device__ __forceinline__ void activate(const DepthwiseArguments<Element, float>& a,
                                         float (&sums)[kCount]) {
  if (kIsClamp || a.clamps) return;
  switch (a.epilogue.activation) {
    case IM2WIN_SILU: return activate_all<IM2WIN_SILU>(a.epilogue, sums);
    case IM2WIN_HARDSWISH: return activate_all<IM2WIN_HARDSWISH>(a.epilogue, sums);
    default: return activate_each(a.epilogue, sums);
  }
}

}  // namespace im2win::cuda
