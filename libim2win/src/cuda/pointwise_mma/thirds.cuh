// float32 as three bfloat16: each is what those before it leave of the element, rounded. Of 2^-110 and more they are
// together the element itself, as 2^-133 is the least bfloat16. Six of the nine products of two elements' thirds are
// summed; the others are at most 2^-24 of the product.
#pragma once

#include <cuda_bf16.h>

#include <cmath>
#include <cstdint>

#include "cuda/fused/operands.cuh"
#include "cuda/pointwise_mma/arguments.cuh"

namespace im2win::cuda::pointwise_mma {

using fused::Magnitudes;
static_assert(sizeof(Magnitudes) == kMagnitudesBytes);

/// Two neighbours' thirds.
__device__ __forceinline__ void split(float x, float y, uint32_t (&thirds)[3]) {
#pragma unroll
  for (uint32_t& third : thirds) {
    const __nv_bfloat162 rounded = __floats2bfloat162_rn(x, y);
    third = reinterpret_cast<const uint32_t&>(rounded);
    x -= __uint_as_float(third << 16);
    y -= __uint_as_float(third & 0xffff0000u);
  }
}

/// Of all filters, by a block: a warp tells the others of those that it has seen.
template <class Element>
__device__ __forceinline__ Magnitudes* magnitudes(const Arguments<Element>& a) {
  return reinterpret_cast<Magnitudes*>(dynamic_shared_memory + a.tile.magnitudes_begin);
}
template <class Element>
__device__ __forceinline__ void tell(const Arguments<Element>& a, Magnitudes seen) {
  seen.merge_warp();
  if (lane_of_warp() == 0) magnitudes(a)[ptx::thread_in_block() / 32] = seen;
}
template <class T>
__device__ __forceinline__ Magnitudes all_seen(const Arguments<typename T::Element>& a) {
  Magnitudes all;
  if (lane_of_warp() < T::kThreads / 32) all = magnitudes(a)[lane_of_warp()];
  all.merge_warp();
  return all;
}

/// Below which sums may be inexact, with elements of these magnitudes; NaN means all of them. What is lost of an element is at
/// most 2^-134, of which a sum has so many times the largest factor; and of products of 2^-96 and more, float32 has all bits
/// that count.
__device__ __forceinline__ float doubt_of(const Magnitudes& filters, const Magnitudes& pixels,
                                          int32_t channels) {
  constexpr float kLeast = 0x1p-110f, kLeastProduct = 0x1p-96f, kLost = 0x1p-109f;
  // Of none but zeros, `smallest` + 1 is zero.
  const auto smallest = [](const Magnitudes& all) {
    return all.smallest == ~0u ? INFINITY : __uint_as_float(all.smallest + 1);
  };
  const float filter = smallest(filters), pixel = smallest(pixels);
  if (filter >= kLeast && pixel >= kLeast && filter * pixel >= kLeastProduct) return 0;
  const float largest = __uint_as_float(filters.largest) + __uint_as_float(pixels.largest);
  return kLeastProduct + kLost * static_cast<float>(channels) * largest;
}

}  // namespace im2win::cuda::pointwise_mma
