// One thread's part of a depthwise convolution, in float: a strip of 7 rows by 7 columns, all of it
// unrolled.
#pragma once

#include "cuda/depthwise/tile.hpp"
#include "cuda/numeric.cuh"

namespace im2win::cuda {

/// A channel's window; false if a weight is infinite or NaN.
template <int kTaps, class Element>
__device__ __forceinline__ bool read_weights(const Element* filter,
                                             float (&weights)[kTaps][kTaps]) {
  float zero = 0;
#pragma unroll
  for (int i = 0; i < kTaps * kTaps; ++i) {
    const float weight = to_compute<float>(filter[i]);
    weights[i / kTaps][i % kTaps] = weight;
    zero = fmaf(weight, 0.f, zero);
  }
  return zero == 0;
}

/// Calls read(y, x) for rows of the input from the top, x[] to be filled with its columns below the
/// strip, and emit(p, sums) for the first `rows` rows of outputs, each as soon as it is complete. A
/// row of the input contributes at once to all rows whose windows hold it, so that it is read a
/// single time. Sums are in the order of depthwise_sum().
template <int kStride, int kTaps, class Read, class Emit>
__device__ __forceinline__ void convolve_strip(const float (&weights)[kTaps][kTaps], int rows,
                                               Read read, Emit emit) {
  float sums[kStripSize][kStripSize];
#pragma unroll
  for (int y = 0; y < (kStripSize - 1) * kStride + kTaps; ++y) {
    // The first output that row y is a part of.
    if (y >= kTaps && (y - kTaps + kStride) / kStride >= rows) return;
    float x[(kStripSize - 1) * kStride + kTaps];
    read(y, x);
#pragma unroll
    for (int p = 0; p < kStripSize; ++p) {
      const int r = y - p * kStride;
      if (r < 0 || r >= kTaps) continue;
#pragma unroll
      for (int s = 0; s < kTaps; ++s) {
#pragma unroll
        for (int q = 0; q < kStripSize; ++q)
          sums[p][q] = fmaf(weights[r][s], x[q * kStride + s], r + s == 0 ? 0 : sums[p][q]);
      }
    }
    if (y < kTaps - 1 || (y - kTaps + 1) % kStride != 0) continue;
    emit((y - kTaps + 1) / kStride, sums[(y - kTaps + 1) / kStride]);
  }
}

}  // namespace im2win::cuda
