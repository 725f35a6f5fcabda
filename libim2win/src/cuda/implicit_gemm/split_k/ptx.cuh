// The PTX instructions of implicit_gemm_tiled in float32 and with 16 bits.
#pragma once

#include <cstdint>

#include "cuda/cluster.cuh"

namespace im2win::cuda::implicit_gemm::split_k {

/// *p, of 16 bits, through the read-only path, or zero. As one predicated instruction: see ptx::load_if.
__device__ __forceinline__ uint16_t load_if(bool condition, const void* p) {
  uint16_t x;
  asm volatile(
      "{\n.reg .pred c;\nsetp.ne.b32 c, %1, 0;\nmov.b16 %0, 0;\n@c ld.global.nc.b16 %0, [%2];\n}\n"
      : "=h"(x)
      : "r"(static_cast<int>(condition)), "l"(p));
  return x;
}

/// All threads of a cluster: what was written before is there after it (PTX ISA, barrier.cluster).
__device__ __forceinline__ void meet_with_writes() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
#endif
}

/// What a block of the cluster has where p is in this one, if there is such a block (PTX ISA, ld.shared::cluster): one
/// predicated instruction.
__device__ __forceinline__ void load_from_cluster_if(bool condition, const float* p, int block,
                                                     float (&x)[1]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("{\n.reg .pred c;\nsetp.ne.b32 c, %1, 0;\n@c ld.shared::cluster.f32 %0, [%2];\n}\n"
               : "+f"(x[0])
               : "r"(static_cast<int>(condition)), "r"(ptx::shared_address_in_cluster(p, block))
               : "memory");
#endif
}

/// Likewise, four neighbours.
__device__ __forceinline__ void load_from_cluster_if(bool condition, const float* p, int block,
                                                     float (&x)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n.reg .pred c;\nsetp.ne.b32 c, %4, 0;\n@c ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, "
      "[%5];\n}\n"
      : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])
      : "r"(static_cast<int>(condition)), "r"(ptx::shared_address_in_cluster(p, block))
      : "memory");
#endif
}

}  // namespace im2win::cuda::implicit_gemm::split_k
