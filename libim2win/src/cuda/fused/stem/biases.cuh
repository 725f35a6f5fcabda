// The biases of a block's filters, in shared memory.
#pragma once

#include <cstdint>

#include "cuda/fused/stem/arguments.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused::stem {

/// Of all of the block's sets.
template <class T>
__device__ __forceinline__ float* biases(Block<T> block) {
  return reinterpret_cast<float*>(dynamic_shared_memory + block.layout.biases);
}

/// By all threads that multiply, each of which is a `thread`, once the kernel before has ended. `first`: the block's
/// first filters.
template <class T>
__device__ __forceinline__ void load_biases(const Arguments<typename T::Element>& a, Block<T> block,
                                            int thread, const TilePosition& first) {
  constexpr int kThreads = T::kShape.multiplying_threads();
  const int before = first.filter_tile * T::kShape.filters;
  const int64_t k = first.group * a.filters_per_group + before;
  for (int i = thread; i < a.sets * T::kShape.filters; i += kThreads)
    biases(block)[i] = before + i < a.filters_per_group ? a.outputs.bias(k + i) : 0;
  ptx::named_barrier(kColumnsBarrier, kThreads);
}

}  // namespace im2win::cuda::fused::stem
