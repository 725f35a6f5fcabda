// Sums that are not what the definition says, or may not be: too small for thirds, or not finite where a window meets zeros
// of padding, which make NaN of weights that are not.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/pointwise_mma/thirds.cuh"

namespace im2win::cuda::pointwise_mma {

/// Below any sum: of windows whose weights are all finite.
constexpr float kNoDoubt = -1;
constexpr uint32_t kInfinity = 0x7f800000;  // its bits

/// Of a pass over a tile, with filters and pixels of these magnitudes, of which a warp's lanes have seen some each.
template <class T>
__device__ __forceinline__ float doubt_of_pass(const Arguments<typename T::Element>& a,
                                               const Magnitudes& filters, Magnitudes pixels) {
  if constexpr (T::kHasThirds) {
    pixels.merge_warp();
    return doubt_of(filters, pixels, a.channels);
  }
  return filters.largest < kInfinity ? kNoDoubt : 0;
}

__device__ __forceinline__ bool is_in_doubt(float sum, float doubt) {
  return !(fabsf(sum) >= doubt && fabsf(sum) < INFINITY);
}

/// Whether any of a warp's sums is. Mostly there is no bound, to which each would be held.
template <class Sums>
__device__ __forceinline__ bool has_doubts(const Sums& sums, float doubt) {
  if (doubt == kNoDoubt) return false;
  constexpr int kSums = sizeof(Sums) / sizeof(float);
  const auto* const all = reinterpret_cast<const float*>(&sums);
  bool is_any = false;
#pragma unroll
  for (int i = 0; i < kSums; ++i) is_any |= !(fabsf(all[i]) < INFINITY);
  if (doubt != 0) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) is_any |= !(fabsf(all[i]) >= doubt);
  }
  return __any_sync(~0u, is_any);
}

constexpr int64_t kPadding = INT64_MIN;  // nowhere

/// Where a window's element of this number is, from its image's first one.
__device__ __forceinline__ int64_t place_of(const Windows& windows, int32_t pixel,
                                            int32_t element) {
  const auto [p, q] = windows.outputs.divide(pixel);
  const auto [tap, channel] = windows.taps.divide(element);
  const auto [row, column] = windows.filter_columns.divide(tap);
  const int32_t y = p * windows.stride_h - windows.padding_top + row * windows.dilation_h;
  const int32_t x = q * windows.stride_w - windows.padding_left + column * windows.dilation_w;
  if (y < 0 || y >= windows.h || x < 0 || x >= windows.w) return kPadding;
  return y * windows.input_stride[0] + x * windows.input_stride[1] + channel;
}

/// A sum from the elements as they are, by one lane. Rare.
template <class T>
__device__ __forceinline__ float sum_again(const Arguments<typename T::Element>& a, int32_t pixel,
                                           int64_t filter) {
  const auto* const weights = a.filter + filter * a.filter_stride[0];
  const Place at(a, T::kForm == Form::kRows ? 0 : pixel);
  const auto* const input =
      a.input + (T::kForm == Form::kRows ? pixel : at.image) * a.input_stride[0];
  double sum = 0;
  for (int32_t i = 0; i < a.channels; ++i) {
    int64_t place = i * a.input_stride[1];
    if constexpr (T::kForm == Form::kPlanes) place += at.pixel;
    if constexpr (T::kForm == Form::kWindows) place = place_of(a.windows, at.pixel, i);
    if (T::kForm == Form::kWindows && place == kPadding) continue;
    sum = fma(double{to_compute<float>(weights[offset_of<T>(a, i)])},
              double{to_compute<float>(input[place])}, sum);
  }
  return static_cast<float>(sum);
}

}  // namespace im2win::cuda::pointwise_mma
