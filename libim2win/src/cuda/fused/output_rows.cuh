// Rows of outputs, neighbouring pixels of a filter, from shared memory to where they belong.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/numeric.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// Neighbouring pixels of a filter, which are written at once.
template <class Element, int kCount>
struct alignas(kCount * sizeof(Element)) Pixels {
  Element x[kCount];
};

/// Of what shared memory keeps: sums, or outputs already.
template <class Element, int kCount, class Kept>
__device__ __forceinline__ Pixels<Element, kCount> to_pixels(const Kept* kept) {
  const auto from = *reinterpret_cast<const Pixels<Kept, kCount>*>(kept);
  if constexpr (std::is_same_v<Element, Kept>) {
    return from;
  } else {
    Pixels<Element, kCount> pixels;
#pragma unroll
    for (int i = 0; i < kCount; ++i) pixels.x[i] = from_compute<Element>(from.x[i]);
    return pixels;
  }
}

/// So many words, `stride` elements apart, and `pitch` where they are kept. A register that holds an address is free
/// when its store has left the queue of the memory pipe, which is long: each has its own.
template <int kCount, int kWord, class Element, class Kept>
__device__ __forceinline__ void store_column(Pixels<Element, kWord>* output, int64_t stride,
                                             const Kept* kept, int pitch) {
  Pixels<Element, kWord>* to[kCount];
  Pixels<Element, kWord> words[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    to[i] =
        reinterpret_cast<Pixels<Element, kWord>*>(reinterpret_cast<Element*>(output) + i * stride);
    words[i] = to_pixels<Element, kWord>(kept + i * pitch);
  }
  ptx::all_known(to);
#pragma unroll
  for (int i = 0; i < kCount; ++i) *to[i] = words[i];
}

}  // namespace im2win::cuda::fused
