// 16-bit outputs as stmatrix and ldmatrix have them: a thread's sums of eight columns are its part of two matrices of
// 8 x 8, of the warp's first eight filters and of its others.
#pragma once

#include <cstdint>

#include "cuda/fused/output_rows.cuh"
#include "cuda/numeric.cuh"

namespace im2win::cuda::fused {

/// Two elements, the first in the low half.
template <class Element>
__device__ __forceinline__ uint32_t packed_pair(float x, float y) {
  const Pixels<Element, 2> pair = {from_compute<Element>(x), from_compute<Element>(y)};
  return reinterpret_cast<const uint32_t&>(pair);
}

/// Of four sums, the thread's of both matrices.
template <class Element>
__device__ __forceinline__ void pack(const float* sum, uint32_t& matrix0, uint32_t& matrix1) {
  matrix0 = packed_pair<Element>(sum[0], sum[1]);
  matrix1 = packed_pair<Element>(sum[2], sum[3]);
}

/// The other way around.
template <class Element>
__device__ __forceinline__ void unpack(const uint32_t (&matrices)[2], float (&x)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    x[i] = to_compute<float>(reinterpret_cast<const Pixels<Element, 2>&>(matrices[i / 2]).x[i % 2]);
}

}  // namespace im2win::cuda::fused
