// The sums of a tile in float32, by FMAs.
#pragma once

#include "cuda/implicit_gemm/tile.cuh"

namespace im2win::cuda::implicit_gemm {

/// The tile along one of its axes, filters or pixels, is shared out to the lanes of a warp; along the other
/// to warps. Lanes are neighbours in the output: pixels, or filters where these are last. Of 64 by 64, a tap
/// is two conflict-free loads and four of words that all lanes have in common, for 32 products.
template <class T, bool kFiltersAcross>
class FmaSums {
 public:
  static constexpr int kBlocks = T::kEdge == 64 ? 3 : 4;  // of a multiprocessor

  __device__ __forceinline__ void add(const typename T::Operand& filters,
                                      const typename T::Operand& windows) {
    const auto& across = kFiltersAcross ? filters : windows;
    const auto& along = kFiltersAcross ? windows : filters;
#pragma unroll
    for (int tap = 0; tap < T::kTaps; ++tap) {
      float a[kAcross];
#pragma unroll
      for (int j = 0; j < kAcross; ++j) a[j] = across[tap][lane() + 32 * j];
#pragma unroll
      for (int i = 0; i < kAlong; i += 4) {
        const float4 word = reinterpret_cast<const float4&>(along[tap][first() + i]);
        const float b[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
        for (int j = 0; j < 4 * kAcross; ++j) {
          float& sum = sums_[i + j / kAcross][j % kAcross];
          sum = fmaf(a[j % kAcross], b[j / kAcross], sum);
        }
      }
    }
  }

  __device__ __forceinline__ void write(const Arguments<float>& a, const Place& place) const {
    const auto& outputs = a.exact.outputs;
#pragma unroll
    for (int j = 0; j < kAcross; ++j) {
      const int across = lane() + 32 * j;
      const int64_t filter = place.first_filter + (kFiltersAcross ? across : first());
      const int64_t pixel = place.first_pixel + (kFiltersAcross ? first() : across);
      if (filter >= a.filters || pixel >= a.pixels) continue;
      OutputIndex at = output_at(a, place, filter, pixel);
      auto of_filter = outputs.filter(at.k);
      auto of_pixel = outputs.pixel(at.n, at.p, at.q);
#pragma unroll
      for (int i = 0; i < kAlong; ++i) {
        if (i > 0 && kFiltersAcross) {
          if (pixel + i >= a.pixels) break;
          at = output_at(a, place, filter, pixel + i);
          of_pixel = outputs.pixel(at.n, at.p, at.q);
        } else if (i > 0) {
          if (filter + i >= a.filters) break;
          of_filter = outputs.filter(++at.k);
        }
        write_sum(a, of_filter, of_pixel, [&] { return at; }, sums_[i][j]);
      }
    }
  }

 private:
  static constexpr int kAcross = T::kEdge / 32, kAlong = T::kEdge / (kThreads / 32);

  __device__ __forceinline__ static int lane() { return threadIdx.x % 32; }
  __device__ __forceinline__ static int first() { return threadIdx.x / 32 * kAlong; }

  float sums_[kAlong][kAcross] = {};
};

}  // namespace im2win::cuda::implicit_gemm
