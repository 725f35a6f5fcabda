// The PTX that windows need beside that of cuda/ptx.cuh.
#pragma once

#include <cstdint>

namespace im2win::cuda::pointwise_mma {

/// As ptx::copy_async_if, of 16 bytes that others near them or later ones will ask for, too: by way of the L1 cache (PTX
/// ISA, cp.async, ca).
__device__ __forceinline__ void copy_cached_if(bool exists, uint32_t to, const void* from) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "{\n.reg .pred none;\nsetp.eq.u32 none, %2, 0;\n"
      "cp.async.ca.shared.global [%0], [%1], 16, none;\n}\n" ::"r"(to),
      "l"(from), "r"(static_cast<uint32_t>(exists))
      : "memory");
#endif
}

}  // namespace im2win::cuda::pointwise_mma
