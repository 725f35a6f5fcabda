// cuda/pointwise_mma/ptx.cuh, emulated.
#pragma once

#include "cuda/ptx.cuh"

namespace im2win::cuda::pointwise_mma {

inline void copy_cached_if(bool exists, uint32_t to, const void* from) {
  ptx::copy_async_if<16>(exists, to, from);
}

}  // namespace im2win::cuda::pointwise_mma
