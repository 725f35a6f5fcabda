// What PTX has for the blocks of a cluster: meeting, and each other's shared memory.
#pragma once

#include <cstdint>

namespace im2win::cuda::ptx {

/// All threads of a cluster that have not ended, each of which arrives and then waits for the others. It orders no
/// writes (PTX ISA, barrier.cluster).
__device__ __forceinline__ void arrive_in_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_in_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/// Of what another block of the cluster has where p is in this one (PTX ISA, mapa).
__device__ __forceinline__ uint32_t shared_address_in_cluster(const void* p, int block) {
  uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(p));
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(block));
#endif
  return address;
}

/// At an mbarrier at such an address, with no more order than it has in a block: with `.release.cluster` it takes a
/// microsecond.
__device__ __forceinline__ void arrive_at(uint32_t barrier) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
#endif
}

/// So many bytes to such an address, by a thread; they count at an mbarrier of the same block when they are
/// there (PTX ISA, cp.async.bulk).
__device__ __forceinline__ void send(const void* from, int bytes, uint32_t to, uint32_t barrier) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(to),
      "r"(static_cast<uint32_t>(__cvta_generic_to_shared(from))), "r"(bytes), "r"(barrier)
      : "memory");
#endif
}

}  // namespace im2win::cuda::ptx
