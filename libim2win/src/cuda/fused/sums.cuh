// What a thread that multiplies has of a tile: its sums, and how far they may be relied on.
#pragma once

#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// The sums of one thread, as wgmma lays them out (see Wgmma). A sum whose magnitude is below its
/// filter's doubt, or is NaN, must be formed again; doubt of NaN means every sum.
template <int kSums>
struct Sums {
  float sum[kSums];
  float doubt[2];  // of the thread's two filters
};

/// Of a warpgroup's sets of filters, or of pixels (KernelShape::sets).
template <class T>
using SumsOfSets = Sums<T::kSums>[T::kSets];

/// Before products, of which some columns may have none. Others do not need it, but ptxas does: it lets products wait
/// for one another (C7515) where their sums may be what is left of outputs before.
template <int kSums>
__device__ __forceinline__ void clear(Sums<kSums>& sums) {
#pragma unroll
  for (float& sum : sums.sum) sum = ptx::fresh(0.0f);
}

/// Adds products of split operands, with factors that take their scales out again, of the thread's two filters.
template <int kSums>
__device__ __forceinline__ void add_product_sums(const float (&part)[kSums], float factor0,
                                                 float factor1, float (&sums)[kSums]) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) sums[i] = fmaf(part[i], i & 2 ? factor1 : factor0, sums[i]);
}

/// Minus the bound below which a sum is in doubt, until something gives reason for doubt: of some terms, and
/// of those and more, of which `bound` is.
__device__ __forceinline__ float with_bound(float before, float bound, bool doubtful) {
  return doubtful || !(before <= 0) ? fabsf(before) + bound : before - bound;
}

/// What it is when all terms are in.
__device__ __forceinline__ float doubt_of(float bounds) { return bounds <= 0 ? 0 : bounds; }

}  // namespace im2win::cuda::fused
