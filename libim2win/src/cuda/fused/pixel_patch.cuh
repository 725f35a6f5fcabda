// Sums whose rows are pixels, on their way out through shared memory.
#pragma once

#include "cuda/fused/shared.hpp"

namespace im2win::cuda::fused {

/// A thread's sums of kPixelPatchFilters filters, as wgmma lays them out (see Wgmma), to its warpgroup's patch.
__device__ __forceinline__ void put_pixels(float* patch, int thread, const float* sums) {
  static_assert(2 * kPixelPatchPitch % 32 == 8);
  const int pixel = thread / 32 * 16 + thread % 32 / 4, filter = thread % 4 * 2;
  float* const to = patch + filter * kPixelPatchPitch + pixel;
#pragma unroll
  for (int i = 0; i < kPixelPatchFilters / 2; ++i)
    to[(i / 4 * 8 + i % 2) * kPixelPatchPitch + i / 2 % 2 * 8] = sums[i];
}

}  // namespace im2win::cuda::fused
