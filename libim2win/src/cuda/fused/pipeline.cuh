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

/// Where a thread is among the stages that it fills by copies of its own, in addresses: found anew for each copy, from
/// where shared memory begins and from the kernel's parameters, they would take longer than to start it.
class FillCursor {
 public:
  /// By a whole warp.
  template <int kStages>
  __device__ __forceinline__ FillCursor(const Ring<kStages>& ring, int stages,
                                        const char* first_stage, int stage_bytes)
      : full_(kept(ptx::shared_address(ring.full))),
        empty_(kept(ptx::shared_address(ring.empty))),
        first_stage_(kept(ptx::shared_address(first_stage))),
        stages_(ptx::unknown(stages)),
        stage_bytes_(ptx::unknown(stage_bytes)) {}

  __device__ __forceinline__ bool has_room() const {
    return ::cuda::ptx::mbarrier_test_wait_parity(empty(), at_.parity ^ 1);
  }
  __device__ __forceinline__ void wait_for_room() const { wait(empty(), at_.parity ^ 1); }

  /// The stage, and who waits until it has all bytes that were announced.
  __device__ __forceinline__ char* to() const {
    const int stage = at_.stage * stage_bytes_;
    return static_cast<char*>(ptx::at_shared_address(first_stage_ + static_cast<uint32_t>(stage)));
  }
  __device__ __forceinline__ uint64_t* full() const { return barrier(full_); }
  __device__ __forceinline__ void announce(uint32_t bytes) const {
    namespace ptx = ::cuda::ptx;
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, full(),
                                   bytes);
  }

  __device__ __forceinline__ int stage() const { return at_.stage; }
  __device__ __forceinline__ void advance() { at_.advance(stages_); }

 private:
  __device__ __forceinline__ static uint32_t kept(uint32_t x) {
    return static_cast<uint32_t>(ptx::unknown(static_cast<int32_t>(x)));
  }
  __device__ __forceinline__ uint64_t* empty() const { return barrier(empty_); }
  /// The stage's, of those from an address on.
  __device__ __forceinline__ uint64_t* barrier(uint32_t first) const {
    return static_cast<uint64_t*>(
        ptx::at_shared_address(first + static_cast<uint32_t>(at_.stage * sizeof(uint64_t))));
  }

  uint32_t full_, empty_, first_stage_;  // in shared memory
  int32_t stages_, stage_bytes_;
  Cursor at_;
};

}  // namespace im2win::cuda::fused
