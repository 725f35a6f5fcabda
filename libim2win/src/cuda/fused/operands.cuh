// From elements to operands: units of 16 bytes, and the splitting of float32.
//
// kSplit writes x * 2^e as high + low / 2^11, both float16. With the slab's largest |x| * 2^e in
// [2^14, 2^15), which is below float16's largest number, high + low / 2^11 is x * 2^e to within
// 2^-23 of itself down to 2^-13; below that ("faint") only to within 2^-36. Three of the four
// partial products are summed; low * low is at most 2^-22 of the product, and 2^-24 as a rule.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/fused/tile.hpp"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// What a thread knows about the magnitudes it has met, as the bits of |x|, which are in the order of
/// the numbers.
struct Magnitudes {
  uint32_t largest = 0;
  uint32_t smallest = ~0u;  // but zero: it stands for bits - 1, which wraps around for zero

  /// Two at a time, as there are instructions for three numbers.
  __device__ __forceinline__ void add(float x, float y) {
    const uint32_t x_bits = __float_as_uint(x) & 0x7fffffffu;
    const uint32_t y_bits = __float_as_uint(y) & 0x7fffffffu;
    largest = __vimax3_u32(largest, x_bits, y_bits);
    smallest = __vimin3_u32(smallest, x_bits - 1, y_bits - 1);
  }
  __device__ __forceinline__ void add(float x) { add(x, x); }
  __device__ __forceinline__ void add(const float4& x) {
    add(x.x, x.y);
    add(x.z, x.w);
  }
  __device__ __forceinline__ void merge(const Magnitudes& other) {
    largest = max(largest, other.largest);
    smallest = min(smallest, other.smallest);
  }
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // as kernels that call it
  __device__ __forceinline__ void merge_warp() {
    largest = __reduce_max_sync(~0u, largest);
    smallest = __reduce_min_sync(~0u, smallest);
  }
#endif
};

/// What low operands are multiplied by.
constexpr float kLowScale = 2048;

/// How well a scale fits what it scales.
enum class Fit : int32_t {
  kGood = 0,
  kFaint,    // some element is faint: a sum that is small beside the largest terms may be inexact
  kExtreme,  // no sum can be relied on: not finite, or out of the range of products of scales
};

/// Faint operands are off by 2^-36, times another's 2^15 at most: 2^-21 for either factor of a scaled
/// product. A sum as large as 2^23 times that, for all 16 products of a step, is as exact as one without
/// them; twice that for good measure.
constexpr int kBoundOfStep = 2 * 16 * 2 * 4;

/// 2^e and 2^-e of a set of elements that are split alike.
struct Scale {
  float factor, inverse;
  Fit fit;

  __device__ __forceinline__ static Scale of(const Magnitudes& magnitudes) {
    constexpr int kBias = 127, kTop = 14, kSpan = 27, kFar = 48;
    const int exponent = static_cast<int>(magnitudes.largest >> 23);
    const int e = min(max(kBias + kTop - exponent, 1 - kBias), kBias - 1);
    Scale scale = {power_of_two(e), power_of_two(-e), Fit::kGood};
    if (magnitudes.largest == 0) return {1.0f, 1.0f, Fit::kGood};
    const int faintest = static_cast<int>((magnitudes.smallest + 1) >> 23);
    if (exponent - faintest > kSpan) scale.fit = Fit::kFaint;
    if (abs(exponent - kBias) > kFar) scale.fit = Fit::kExtreme;
    return scale;
  }

 private:
  __device__ __forceinline__ static float power_of_two(int e) {
    return __uint_as_float(static_cast<uint32_t>(127 + e) << 23);
  }
};

__device__ __forceinline__ uint32_t bits_of(__half2 x) { return *reinterpret_cast<uint32_t*>(&x); }

/// Two neighbouring elements, scaled, as high and low operands.
__device__ __forceinline__ void split(float x, float y, float factor, uint32_t& high,
                                      uint32_t& low) {
  x *= factor;
  y *= factor;
  const __half2 h = __floats2half2_rn(x, y);
  const float2 f = __half22float2(h);
  high = bits_of(h);
  low = bits_of(__floats2half2_rn((x - f.x) * kLowScale, (y - f.y) * kLowScale));
}

__device__ __forceinline__ void split_unit(const float (&x)[8], float factor, uint4& high,
                                           uint4& low) {
  split(x[0], x[1], factor, high.x, low.x);
  split(x[2], x[3], factor, high.y, low.y);
  split(x[4], x[5], factor, high.z, low.z);
  split(x[6], x[7], factor, high.w, low.w);
}

__device__ __forceinline__ uint4 pack_unit(const float (&x)[4]) {
  return make_uint4(ptx::round_to_tf32(x[0]), ptx::round_to_tf32(x[1]), ptx::round_to_tf32(x[2]),
                    ptx::round_to_tf32(x[3]));
}

/// Of TF32, from its bits.
__device__ __forceinline__ uint4 rounded_unit(const uint4& x) {
  return pack_unit(
      {__uint_as_float(x.x), __uint_as_float(x.y), __uint_as_float(x.z), __uint_as_float(x.w)});
}

/// 16-bit elements as they are.
__device__ __forceinline__ uint4 pack_unit(const uint16_t (&x)[8]) {
  const auto pair = [&](int i) { return uint32_t{x[i]} | uint32_t{x[i + 1]} << 16; };
  return make_uint4(pair(0), pair(2), pair(4), pair(6));
}

/// What elements are while they are moved.
template <Operands kOperands>
using Moved = std::conditional_t<kOperands == Operands::kHalf || kOperands == Operands::kBFloat16,
                                 uint16_t, float>;

}  // namespace im2win::cuda::fused
