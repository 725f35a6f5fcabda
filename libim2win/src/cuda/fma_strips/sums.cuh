// A strip's sums: neighbouring outputs of a row, of each of a thread's filters, in registers.
#pragma once

#include "cuda/fma_strips/arguments.cuh"

namespace im2win::cuda::fma_strips {

template <int kFilters>
class Sums {
 public:
  static constexpr int kColumns = strip_columns(kFilters);

  /// That so many neighbouring taps of a strip meet, in words of a row of the input.
  template <int kTaps>
  static constexpr int kWords = (kColumns + kTaps - 1 + kWord - 1) / kWord;

  /// Of those words, and of a word of weights of each filter, of which kTaps count. Neighbouring outputs have all but
  /// one of their factors in common: they are loaded once for all taps.
  template <int kTaps>
  __device__ __forceinline__ void add(const float* const (&words)[kWords<kTaps>],
                                      const float* weights) {
    float x[kWords<kTaps> * kWord];
#pragma unroll
    for (int i = 0; i < kWords<kTaps>; ++i) load(words[i], &x[i * kWord]);
#pragma unroll
    for (int k = 0; k < kFilters; ++k) {
      float w[kWord];
      if constexpr (kTaps == 1)
        w[0] = weights[k * kWord];
      else
        load(weights + k * kWord, w);
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap)
#pragma unroll
        for (int i = 0; i < kColumns; ++i) sums_[k][i] = fmaf(w[tap], x[i + tap], sums_[k][i]);
    }
  }

  /// Moves them to `to`, or adds them to what is there.
  __device__ __forceinline__ void flush(float* to, int pitch, bool is_first) {
#pragma unroll
    for (int k = 0; k < kFilters; ++k)
#pragma unroll
      for (int i = 0; i < kColumns; ++i, to += pitch) {
        *to = is_first ? sums_[k][i] : *to + sums_[k][i];
        sums_[k][i] = 0;
      }
  }

 private:
  __device__ __forceinline__ static void load(const float* from, float* to) {
    const float4 word = *reinterpret_cast<const float4*>(from);
    to[0] = word.x;
    to[1] = word.y;
    to[2] = word.z;
    to[3] = word.w;
  }

  float sums_[kFilters][kColumns] = {};
};

}  // namespace im2win::cuda::fma_strips
