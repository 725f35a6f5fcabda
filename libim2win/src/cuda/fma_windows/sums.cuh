// Sums of what a thread holds with a row of taps, and where they end.
#pragma once

#include "cuda/fma_windows/arguments.cuh"

namespace im2win::cuda::fma_windows {

template <class T>
__device__ __forceinline__ void multiply(const Held<T>& held, const float* row,
                                         float (&sums)[kHeld]) {
#pragma unroll
  for (int i = 0; i < kHeld; ++i) sums[i] = 0;
#pragma unroll
  for (int word = 0; word < T::kDepth; word += 4) {
    const float4 x = reinterpret_cast<const float4&>(row[word]);
    const float taps[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int tap = 0; tap < 4; ++tap)
#pragma unroll
      for (int i = 0; i < kHeld; ++i) sums[i] = fmaf(taps[tap], held[word + tap][i], sums[i]);
  }
}

/// One of the problem's.
struct Output {
  int64_t filter;
  int pixel;
};

template <class Element>
__device__ __forceinline__ float residual(const Arguments<Element>& a, const Output& output) {
  const auto& outputs = a.exact.outputs;
  const auto [n, p, q] = a.locate(output.pixel);
  const int64_t at =
      output.filter * outputs.residual_strides()[1] + outputs.pixel(n, p, q).residual;
  return to_compute<float>(outputs.residual_data()[at]);
}

/// What is stored of sums; the first `count` are those of outputs: output(i). `kPlain`: whether the epilogue only adds a
/// bias and clamps.
template <bool kPlain, class Element, class OutputOf>
__device__ __forceinline__ void finish(const Arguments<Element>& a, const float (&bias)[kHeld],
                                       int count, const OutputOf& output, float (&sums)[kHeld]) {
  const auto& outputs = a.exact.outputs;
  if constexpr (kPlain) {
    const float low = outputs.low();
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const float y = sums[i] + bias[i];
      sums[i] = y < low ? low : y;
    }
    return;
  }
  float residuals[kHeld] = {};
  if (outputs.residual_data() != nullptr) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      if (i < count) residuals[i] = residual(a, output(i));
  }
#pragma unroll
  for (int i = 0; i < kHeld; ++i) sums[i] = outputs.added(sums[i], residuals[i], bias[i]);
  outputs.activate(sums);
}

/// To neighbours in memory, as a word.
template <class Element>
__device__ __forceinline__ void store_word(Element* to, const float (&x)[kHeld]) {
  struct alignas(kHeld * sizeof(Element)) Word {
    Element of[kHeld];
  };
  Word word;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) word.of[i] = from_compute<Element>(x[i]);
  *reinterpret_cast<Word*>(to) = word;
}

}  // namespace im2win::cuda::fma_windows
