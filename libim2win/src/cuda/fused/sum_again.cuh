// Sums that products on tensor cores do not give.
#pragma once

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/numeric.cuh"

namespace im2win::cuda::fused {

/// The sum of an output of filter k from the input and the filter as they are, by a warp, whose lanes take turns with
/// channels. Rarely needed: for sums which products on tensor cores do not give.
template <class Element>
__device__ __forceinline__ float sum_again(const Arguments<Element>& a, int32_t group, int64_t k,
                                           int64_t n, int p, int q) {
  const int y0 = p * a.stride_h - a.padding_top, x0 = q * a.stride_w - a.padding_left;
  // Groups side by side may have been merged.
  const int32_t in_group = static_cast<int32_t>(k - group * a.filters_per_group);
  const int64_t first_channel =
      group * a.channels + in_group / a.own_filters * int64_t{a.own_channels};
  const Element* input = a.input + n * a.stride_n + first_channel * a.stride_c;
  const int64_t(&stride)[4] = a.exact.stride;
  const Element* filter = a.exact.data + k * stride[0];
  double sum = 0;
  for (int64_t c = threadIdx.x % 32; c < a.own_channels; c += 32) {
    for (int r = 0; r < a.r; ++r) {
      const int y = y0 + r * a.dilation_h;
      for (int s = 0; s < a.s; ++s) {
        const int x = x0 + s * a.dilation_w;
        if (y < 0 || y >= a.h || x < 0 || x >= a.w) continue;
        const Element element = input[c * a.stride_c + y * a.row_stride + x * a.column_stride];
        const Element weight = filter[c * stride[1] + r * stride[2] + s * stride[3]];
        sum = fma(double{to_compute<float>(weight)}, double{to_compute<float>(element)}, sum);
      }
    }
  }
  for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
  return static_cast<float>(sum);
}

}  // namespace im2win::cuda::fused
