// What all who stage split operands do: find a scale for a slab together, and store units by it.
#pragma once

#include <cstdint>

#include "cuda/fused/block.cuh"
#include "cuda/fused/operands.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// Of the threads that bring windows, so many.
template <class T>
class SplitSlabs {
 public:
  __device__ __forceinline__ explicit SplitSlabs(int threads) : threads_(threads) {}

  /// Of what all have seen. Two sets of results, so that one barrier is enough.
  __device__ __forceinline__ Scale scale_of(Magnitudes magnitudes) {
    magnitudes.merge_warp();
    Magnitudes* const of_warps = barriers().magnitudes[turn_];
    turn_ ^= 1;
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = magnitudes;
    ptx::named_barrier(kStagingBarrier, threads_);
#pragma unroll
    for (int i = 0; i < T::kStagingThreads / 32; ++i)
      if (i < threads_ / 32) magnitudes.merge(of_warps[i]);
    return Scale::of(magnitudes);
  }

  /// For those who multiply.
  __device__ __forceinline__ static void tell(const Scale& scale, int stage) {
    if (threadIdx.x == 0) barriers().scales[stage] = {scale.inverse, scale.fit};
  }

  /// `low`: bytes from high operands to low ones.
  __device__ __forceinline__ static void store(char* to, int low, const float (&unit)[8],
                                               const Scale& scale) {
    uint4 parts[2];
    split_unit(unit, scale.factor, parts[0], parts[1]);
    *reinterpret_cast<uint4*>(to) = parts[0];
    *reinterpret_cast<uint4*>(to + low) = parts[1];
  }

 private:
  int threads_;
  int turn_ = 0;
};

}  // namespace im2win::cuda::fused
