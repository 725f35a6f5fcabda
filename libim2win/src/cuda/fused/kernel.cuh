// im2win_fused. Persistent blocks: one or two warpgroups bring operands to shared memory
// (staging.cuh, boxes.cuh, and a warp of them loader.cuh), two multiply (multiply.cuh) and write (writer.cuh).
#pragma once

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/boxes.cuh"
#include "cuda/fused/loader.cuh"
#include "cuda/fused/multiply.cuh"
#include "cuda/fused/staging.cuh"
#include "cuda/fused/writer.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

template <class T>
__device__ __forceinline__ void multiply_and_write(const Arguments<typename T::Element>& a,
                                                   Block<T> block, int warpgroup) {
  if (kHasBoxes<T> && a.stored) {
    OutputBoxes<T>::place_columns(a, block, warpgroup, static_cast<int>(threadIdx.x % 128));
    ptx::named_barrier(kColumnsBarrier + warpgroup, 128);
  }
  // Apart by about half a tile, one warpgroup multiplies while the other writes.
  if (warpgroup == 1) ptx::named_barrier(kStartBarrier, kMultiplyingThreads);
  ptx::wait_for_kernel_before();  // which packs the filter
  Multiplier<T> multiplier(a, block, warpgroup);
  bool turn = false;
  for (int32_t number = blockIdx.x; number < a.tiles; number += gridDim.x, turn = !turn) {
    Sums<T::kSums> sums;
    multiplier.multiply(locate(a, number), sums);
    // While it multiplies, registers are few: nothing that the writer needs is kept from before.
    Writer<T>(a, block, turn).write(locate(a, ptx::fresh(number)), sums);
  }
}

/// See SharedLayout. A slab has lines of units with room at their ends: each of a part's units; or planes
/// that are boxes.
template <class T>
__device__ __forceinline__ void clear_gaps(const Arguments<typename T::Element>& a,
                                           Block<T> block) {
  const Tile& tile = a.tile;
  const int box = tile.box_rows * tile.images * tile.pitch;
  const int lines = tile.boxed() ? tile.planes : traits(T::kOperands).parts * tile.units;
  const int pitch = tile.boxed() ? tile.plane_positions * tile.row_units : tile.positions_pitch;
  const int used = tile.boxed() ? box * tile.row_units : tile.positions;
  const int overrun = tile.overrun * tile.row_units;
  const auto clear = [](char* slab, int unit) {
    *reinterpret_cast<uint4*>(slab + unit * kUnitBytes) = make_uint4(0, 0, 0, 0);
  };
  for (int stage = 0; stage < tile.slab_stages; ++stage) {
    for (int line = threadIdx.x; line < lines; line += static_cast<int>(blockDim.x))
      for (int i = used; i < pitch; ++i) clear(block.slab(stage), line * pitch + i);
    for (int i = threadIdx.x; i < overrun; i += static_cast<int>(blockDim.x))
      clear(block.slab(stage), lines * pitch + i);
  }
  if constexpr (T::kInstructions == Instructions::kWgmma)
    ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
}

/// Inputs to slabs; and, where they come as boxes, outputs away.
template <class T>
__device__ __forceinline__ void bring_windows(const Arguments<typename T::Element>& a,
                                              Block<T> block, int warp) {
  if constexpr (kHasBoxes<T>) {
    if (a.boxed) {
      if (threadIdx.x % 32 != 0) return;
      if (warp == 0) BoxStaging<T>(a, block).run();
      if (warp > 0 && warp <= output_sets(T::kShape) && a.stored)
        store_boxes<T>(a, block, warp - 1);
      return;
    }
  }
  WindowStaging<T>(a, block).run();
}

template <class T>
__global__ void __launch_bounds__(T::kShape.threads(), 1)
    fused_kernel(const __grid_constant__ Arguments<typename T::Element> a) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // never launched below: see device_refusal
  constexpr bool kWgmma = T::kInstructions == Instructions::kWgmma;
  const Block<T> block = {a.shared};
  if (threadIdx.x == 0) {
    constexpr int kUsers = arrivals<T>(kMultiplyingThreads);
    barriers().slabs.initialize(a.boxed    ? 1
                                : a.copies ? T::kStagingThreads
                                           : arrivals<T>(T::kStagingThreads),
                                kUsers);
    barriers().filters.initialize(arrivals<T>(kFilterThreads), kUsers);
    barriers().raw.initialize(kFilterThreads, T::kStagingThreads);
    for (int set = 0; set < output_sets(T::kShape); ++set) {
      ::cuda::ptx::mbarrier_init(&barriers().outputs_full[set],
                                 kMultiplyingWarps / output_sets(T::kShape));
      ::cuda::ptx::mbarrier_init(&barriers().outputs_empty[set], 1);
    }
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
      bring_windows<T>(a, block, warp);
    } else {
      load<T>(a, block);
    }
  } else {
    if constexpr (kWgmma) ptx::take_registers<T::kMultiplyingRegisters>();
    multiply_and_write<T>(a, block, (warp - T::kFirstMultiplier / 32) / 4);
  }
#endif
}

}  // namespace im2win::cuda::fused
