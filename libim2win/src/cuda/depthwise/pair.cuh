// Pairs of neighbouring 16-bit elements.
#pragma once

#include <type_traits>

#include "cuda/depthwise/sum.cuh"

namespace im2win::cuda {

/// Two elements of a register.
template <class Element>
using Pair = std::conditional_t<std::is_same_v<Element, __half>, __half2, __nv_bfloat162>;

template <class Element>
__device__ __forceinline__ Pair<Element> pair_of(float low, float high) {
  if constexpr (std::is_same_v<Element, __half>)
    return __floats2half2_rn(low, high);
  else
    return __floats2bfloat162_rn(low, high);
}

/// The clamp of an epilogue, after rounding: that is monotonic, so that their order does not
/// matter.
template <class Element>
struct PairClamp {
  Pair<Element> low, high;

  __device__ __forceinline__ explicit PairClamp(const Clamp<float>& clamp)
      : low(pair_of<Element>(clamp.low, clamp.low)),
        high(pair_of<Element>(clamp.high, clamp.high)) {}

  __device__ __forceinline__ Pair<Element> operator()(Pair<Element> x) const {
    return __hmin2_nan(__hmax2_nan(x, low), high);
  }
};

}  // namespace im2win::cuda
