// How products of a warpgroup are ordered with the rest of its work.
#pragma once

#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// wgmma: products go on while the warpgroup does, until it waits.
struct WgmmaOrder {
  __device__ __forceinline__ static void begin() { ptx::wgmma_fence(); }
  __device__ __forceinline__ static void commit() { ptx::wgmma_commit(); }
  /// Until at most kPending commits are under way.
  template <int kPending>
  __device__ __forceinline__ static void wait() {
    ptx::wgmma_wait<kPending>();
  }
  /// And these sums, of none of those, may be read.
  template <int kPending, int kSums>
  __device__ __forceinline__ static void wait(float (&sums)[kSums]) {
    ptx::wgmma_wait<kPending>();
    ptx::accumulators_written(sums);
  }
  template <int kSums>
  __device__ __forceinline__ static void end(float (&sums)[kSums]) {
    wait<0>(sums);
  }
};

/// mma.sync: products are done when they return.
struct MmaOrder {
  __device__ __forceinline__ static void begin() {}
  __device__ __forceinline__ static void commit() {}
  template <int kPending>
  __device__ __forceinline__ static void wait() {}
  template <int kPending, int kSums>
  __device__ __forceinline__ static void wait(float (&)[kSums]) {}
  template <int kSums>
  __device__ __forceinline__ static void end(float (&)[kSums]) {}
};

}  // namespace im2win::cuda::fused
