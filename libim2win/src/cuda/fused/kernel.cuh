// im2win_fused. Persistent blocks: one or two warpgroups bring operands to shared memory
// (staging.cuh, boxes.cuh, and a warp of them loader.cuh), two multiply (multiply.cuh) and write
// (writer.cuh).
#pragma once

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/boxes.cuh"
#include "cuda/fused/loader.cuh"
#include "cuda/fused/multiply.cuh"
#include "cuda/fused/pixel_rows.cuh"
#include "cuda/fused/staging.cuh"
#include "cuda/fused/writer.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// How many of its block's tiles a multiplying warp has done, or passed by. In shared memory: registers are
/// few while it multiplies, and what the compiler would keep in local memory comes after all outputs on
/// their way.
class TilesDone {
 public:
  __device__ __forceinline__ explicit TilesDone(int32_t first) { set(first); }

  __device__ __forceinline__ int32_t count() const {
    return *static_cast<volatile const int32_t*>(&of_warp());
  }
  /// The tile's number.
  __device__ __forceinline__ int32_t next() const {
    return static_cast<int32_t>(blockIdx.x + static_cast<uint32_t>(count()) * gridDim.x);
  }
  __device__ __forceinline__ void advance(int32_t tiles) {
    const int32_t more = count() + tiles;
    __syncwarp();
    set(more);
  }

 private:
  __device__ __forceinline__ static int32_t& of_warp() {
    return barriers().tiles_done[threadIdx.x / 32 % kMultiplyingWarps];
  }
  __device__ __forceinline__ static void set(int32_t count) {
    if (threadIdx.x % 32 == 0) of_warp() = count;
    __syncwarp();
  }
};

template <class T>
__device__ __forceinline__ void multiply_and_write(const Arguments<typename T::Element>& a,
                                                   Block<T> block, int warpgroup) {
  constexpr bool kTurns = T::kShape.takes_turns;
  constexpr int kEvery = kTurns ? T::kShape.multiplying_warpgroups : 1;  // of the block's tiles
  if (kHasBoxes<T> && a.stored) {
    if constexpr (!T::kShape.pixel_rows)
      OutputBoxes<T>::place_columns(a, block, warpgroup, static_cast<int>(threadIdx.x % 128));
  } else {
    Writer<T>::place_columns(a, block);
  }
  ptx::named_barrier(kColumnsBarrier, kMultiplyingThreads);
  // Half a tile apart at first, one warpgroup multiplies while the other writes; where both wait for the same
  // stages of filters, they meet again.
  if (!kTurns && warpgroup == 1) wait_to_start(false);
  ptx::wait_for_kernel_before();  // which packs the filter
  Multiplier<T> multiplier(a, block, warpgroup);
  TilesDone done(kTurns ? warpgroup : 0);
  for (; done.next() < a.tiles; done.advance(kEvery)) {
    Sums<T::kSums> sums;
    if (kTurns && done.count() > 0) wait_to_start(warpgroup == 0);
    const bool more = done.next() < a.tiles - static_cast<int32_t>(gridDim.x);
    multiplier.multiply(locate(a, done.next()), more, sums);
    Writer<T>(a, block, locate(a, done.next())).write(sums, done.count() / kEvery % 2 != 0);
  }
}

/// See SharedLayout. A slab has lines of units with room at their ends: each of a part's units; or planes
/// that are boxes. Raw lines of channels that units have and the input has not stay as they are here.
template <class T>
__device__ __forceinline__ void clear_gaps(const Arguments<typename T::Element>& a,
                                           Block<T> block) {
  if (T::kShape.pixel_rows) return;
  const Tile& tile = a.tile;
  const int box = tile.box_rows * tile.images * tile.pitch;
  const int lines = tile.boxed() ? tile.planes : traits(T::kOperands).parts * tile.units;
  const int pitch = tile.boxed() ? tile.plane_positions * tile.row_units : tile.positions_pitch;
  const int used = tile.boxed() ? box * tile.row_units : tile.positions;
  const int overrun = tile.overrun * tile.row_units;
  const int raw = tile.unit_columns > 1 ? a.shared.raw_stage / kUnitBytes : 0;
  const auto clear = [](char* slab, int unit) {
    *reinterpret_cast<uint4*>(slab + unit * kUnitBytes) = make_uint4(0, 0, 0, 0);
  };
  for (int stage = 0; stage < tile.slab_stages; ++stage) {
    for (int line = threadIdx.x; line < lines; line += static_cast<int>(blockDim.x))
      for (int i = used; i < pitch; ++i) clear(block.slab(stage), line * pitch + i);
    for (int i = threadIdx.x; i < overrun; i += static_cast<int>(blockDim.x))
      clear(block.slab(stage), lines * pitch + i);
  }
  for (int stage = 0; stage < tile.raw.stages; ++stage)
    for (int i = threadIdx.x; i < raw; i += static_cast<int>(blockDim.x))
      clear(block.raw(stage), i);
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
  if constexpr (T::kShape.pixel_rows) {
    PixelRowStaging<T>(a, block).run();
  } else {
    WindowStaging<T>(a, block).run();
  }
}

template <class T>
__global__ void __launch_bounds__(T::kShape.threads(), 1)
    fused_kernel(const __grid_constant__ Arguments<typename T::Element> a) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // never launched below: see device_refusal
  constexpr bool kWgmma = T::kInstructions == Instructions::kWgmma;
  const Block<T> block = {a.shared};
  if (threadIdx.x == 0) {
    constexpr int kUsers = arrivals<T>(T::kShape.takes_turns ? 128 : kMultiplyingThreads);
    barriers().slabs.initialize(a.boxed    ? 1
                                : a.copies ? T::kStagingThreads
                                           : arrivals<T>(T::kStagingThreads),
                                kUsers);
    barriers().filters.initialize(arrivals<T>(kFilterThreads), kUsers);
    barriers().raw.initialize(kFilterThreads, T::kStagingThreads);
    barriers().placed_for = {};
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
