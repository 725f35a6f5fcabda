// Rings of stages in shared memory between those who fill them and those who use them.
#pragma once

#include <cuda/ptx>

#include <cstdint>

#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// Where a thread is in a ring: the stage, and the parity of its uses so far (PTX ISA, mbarrier).
struct Cursor {
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance(int stages) {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// Asleep where that can be: who polls takes turns from others.
__device__ __forceinline__ void wait(uint64_t* barrier, uint32_t parity) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  while (!::cuda::ptx::mbarrier_test_wait_parity(barrier, parity)) {
  }
#else
  constexpr uint32_t kNanoseconds = 1000000;  // at most: the barrier wakes
  while (!::cuda::ptx::mbarrier_try_wait_parity(barrier, parity, kNanoseconds)) {
  }
#endif
}

template <int kStages>
struct Ring {
  uint64_t full[kStages];
  uint64_t empty[kStages];

  /// By one thread, before any other uses the ring: as many stages as are in use. A loop, as a kernel's first
  /// instructions take longer to come than to go through again.
  __device__ __forceinline__ void initialize(int stages, uint32_t fillers, uint32_t users) {
#pragma unroll 1
    for (int i = 0; i < stages; ++i) {
      ::cuda::ptx::mbarrier_init(&full[i], fillers);
      ::cuda::ptx::mbarrier_init(&empty[i], users);
    }
  }

  __device__ __forceinline__ void wait_full(const Cursor& at) { wait(&full[at.stage], at.parity); }
  /// The first round finds every stage empty.
  __device__ __forceinline__ void wait_empty(const Cursor& at) {
    wait(&empty[at.stage], at.parity ^ 1);
  }
  __device__ __forceinline__ bool is_empty(const Cursor& at) {
    return ::cuda::ptx::mbarrier_test_wait_parity(&empty[at.stage], at.parity ^ 1);
  }
  __device__ __forceinline__ void arrive_full(int stage) {
    ::cuda::ptx::mbarrier_arrive(&full[stage]);
  }
  /// By the lanes of a warp, once for all, of what they have written: wgmma reads by the async proxy.
  __device__ __forceinline__ void arrive_full_by_warp(int stage) {
    ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive_full(stage);
  }
  /// When the thread's copies so far are done.
  __device__ __forceinline__ void arrive_full_after_copies(int stage) {
    im2win::cuda::ptx::arrive_after_copies(&full[stage]);
  }
  __device__ __forceinline__ void arrive_empty(int stage) {
    ::cuda::ptx::mbarrier_arrive(&empty[stage]);
  }
};

}  // namespace im2win::cuda::fused
