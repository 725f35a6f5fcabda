// im2win_fused. Persistent blocks of three warpgroups: one stages operands
// in shared memory (staging.cuh), two multiply (multiply.cuh) and write (writer.cuh).
#pragma once

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/multiply.cuh"
#include "cuda/fused/staging.cuh"
#include "cuda/fused/writer.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

template <class T>
__device__ __forceinline__ void multiply_and_write(const Arguments<typename T::Element>& a,
                                                   Block<T> block, int warpgroup) {
  // Apart by about half a tile, one warpgroup multiplies while the other writes.
  if (warpgroup == 1) ptx::named_barrier(kStartBarrier, 2 * 128);
  Multiplier<T> multiplier(a, block, warpgroup);
  bool turn = false;
  for (int32_t number = blockIdx.x; number < a.tiles; number += gridDim.x, turn = !turn) {
    Sums<T::kSums> sums;
    multiplier.multiply(locate(a, number), sums);
    // While it multiplies, registers are few: nothing that the writer needs is kept from before.
    Writer<T>(a, block, turn).write(locate(a, ptx::fresh(number)), sums);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    fused_kernel(const __grid_constant__ Arguments<typename T::Element> a) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // never launched below: see device_refusal
  constexpr bool kWgmma = T::kInstructions == Instructions::kWgmma;
  const Block<T> block = {a.shared};
  if (threadIdx.x == 0) {
    barriers().slabs.initialize(a.copies ? kStagingThreads : kStagingThreads / 32,
                                kMultiplyingWarps);
    barriers().filters.initialize(1, kMultiplyingWarps);
    for (uint64_t& full : barriers().raw_full) ::cuda::ptx::mbarrier_init(&full, kStagingThreads);
    if constexpr (kWgmma)
      ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
  }
  __syncthreads();

  // The same for a warp, which the compiler must know to keep descriptors in uniform registers.
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp < 4) {
    if constexpr (kWgmma) ptx::give_up_registers<T::kStagingRegisters>();
    if (warp < kStagingThreads / 32) {
      WindowStaging<T>(a, block).run();
    } else {
      FilterStaging<T>(a, block).run();
    }
  } else {
    if constexpr (kWgmma) ptx::take_registers<T::kMultiplyingRegisters>();
    multiply_and_write<T>(a, block, warp / 4 - 1);
  }
#endif
}

}  // namespace im2win::cuda::fused
