// im2win_fused. Persistent blocks: one or two warpgroups stage operands in shared memory
// (staging.cuh), two multiply (multiply.cuh) and write (writer.cuh).
#pragma once

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/filters.cuh"
#include "cuda/fused/multiply.cuh"
#include "cuda/fused/staging.cuh"
#include "cuda/fused/writer.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

template <class T>
__device__ __forceinline__ void multiply_and_write(const Arguments<typename T::Element>& a,
                                                   Block<T> block, int warpgroup) {
  // Apart by about half a tile, one warpgroup multiplies while the other writes.
  if (warpgroup == 1) ptx::named_barrier(kStartBarrier, kMultiplyingThreads);
  Multiplier<T> multiplier(a, block, warpgroup);
  bool turn = false;
  for (int32_t number = blockIdx.x; number < a.tiles; number += gridDim.x, turn = !turn) {
    Sums<T::kSums> sums;
    multiplier.multiply(locate(a, number), sums);
    // While it multiplies, registers are few: nothing that the writer needs is kept from before.
    Writer<T>(a, block, turn).write(locate(a, ptx::fresh(number)), sums);
  }
}

/// See SharedLayout.
template <class T>
__device__ __forceinline__ void clear_gaps(const Arguments<typename T::Element>& a,
                                           Block<T> block) {
  const uint4 zeros = make_uint4(0, 0, 0, 0);
  const int step = static_cast<int>(blockDim.x);
  const int units = traits(T::kOperands).parts * a.tile.units;
  for (int i = threadIdx.x; i < a.tile.slab_stages * units; i += step) {
    char* unit = block.slab(i / units) + i % units * a.tile.positions_pitch * kUnitBytes;
    for (int position = a.tile.positions; position < a.tile.positions_pitch; ++position)
      *reinterpret_cast<uint4*>(unit + position * kUnitBytes) = zeros;
  }
  for (int i = threadIdx.x; i < a.tile.overrun; i += step)
    *reinterpret_cast<uint4*>(dynamic_shared_memory + a.shared.overrun + i * kUnitBytes) = zeros;
  if constexpr (T::kInstructions == Instructions::kWgmma)
    ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
}

template <class T>
__global__ void __launch_bounds__(T::kShape.threads(), 1)
    fused_kernel(const __grid_constant__ Arguments<typename T::Element> a) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // never launched below: see device_refusal
  constexpr bool kWgmma = T::kInstructions == Instructions::kWgmma;
  const Block<T> block = {a.shared};
  if (threadIdx.x == 0) {
    barriers().slabs.initialize(a.copies ? T::kStagingThreads : T::kStagingThreads / 32,
                                kMultiplyingWarps);
    barriers().filters.initialize(1, kMultiplyingWarps);
    for (uint64_t& full : barriers().raw_full)
      ::cuda::ptx::mbarrier_init(&full, T::kStagingThreads);
    if constexpr (kWgmma)
      ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
  }
  clear_gaps<T>(a, block);
  __syncthreads();

  // The same for a warp, which the compiler must know to keep descriptors in uniform registers.
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp < T::kFirstMultiplier / 32) {
    if constexpr (kWgmma) ptx::give_up_registers<T::kStagingRegisters>();
    if (warp < T::kStagingThreads / 32) {
      WindowStaging<T>(a, block).run();
    } else {
      FilterStaging<T>(a, block).run();
    }
  } else {
    if constexpr (kWgmma) ptx::take_registers<T::kMultiplyingRegisters>();
    multiply_and_write<T>(a, block, (warp - T::kFirstMultiplier / 32) / 4);
  }
#endif
}

}  // namespace im2win::cuda::fused
