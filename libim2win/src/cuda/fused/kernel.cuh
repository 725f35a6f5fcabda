// im2win_fused. Persistent blocks: one or two warpgroups bring operands to shared memory
// (boxes.cuh, pixel_rows.cuh, transpose.cuh, placed_staging.cuh, held_staging.cuh, staging.cuh, and a warp of
// them loader.cuh), two multiply (multiply_whole.cuh, multiply_split.cuh) and write (writer.cuh, box_writer.cuh). Or lines
// of the input are multiplied as they come (multiply_lines.cuh, pixel_major_writer.cuh).
// Where tiles are few, clusters of blocks share them out (cluster_sums.cuh); where windows take long to come, pairs of
// blocks share these (slab_turns.cuh).
#pragma once

#include <type_traits>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/box_writer.cuh"
#include "cuda/fused/boxes.cuh"
#include "cuda/fused/clear.cuh"
#include "cuda/fused/cluster_sums.cuh"
#include "cuda/fused/gathered_lines.cuh"
#include "cuda/fused/held_staging.cuh"
#include "cuda/fused/loader.cuh"
#include "cuda/fused/multiply_lines.cuh"
#include "cuda/fused/multiply_split.cuh"
#include "cuda/fused/multiply_whole.cuh"
#include "cuda/fused/pixel_major_writer.cuh"
#include "cuda/fused/pixel_rows.cuh"
#include "cuda/fused/placed_staging.cuh"
#include "cuda/fused/slab_turns.cuh"
#include "cuda/fused/staging.cuh"
#include "cuda/fused/tile_columns.cuh"
#include "cuda/fused/transpose.cuh"
#include "cuda/fused/writer.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// How many of its block's tiles a multiplying warp has done, or passed by. In shared memory: registers are
/// few while it multiplies, and what the compiler would keep in local memory comes after all outputs on
/// their way.
class TilesDone {
 public:
  __device__ __forceinline__ TilesDone(const Tile& tile, int32_t first) : tile_(tile) {
    set(first);
  }

  __device__ __forceinline__ int32_t count() const {
    return *static_cast<volatile const int32_t*>(&of_warp());
  }
  /// The tile's number.
  __device__ __forceinline__ int32_t next() const {
    return first_tile(tile_) + count() * static_cast<int32_t>(gridDim.x);
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

  const Tile& tile_;
};

template <class T>
using Multiplier = std::conditional_t<
    T::kShape.pixel_major, LineMultiplier<T>,
    std::conditional_t<T::kOperands == Operands::kSplit, SplitMultiplier<T>, WholeMultiplier<T>>>;

template <class T>
__device__ __forceinline__ void multiply_and_write(const Arguments<typename T::Element>& a,
                                                   Block<T> block, int warpgroup) {
  constexpr bool kTurns = T::kShape.takes_turns;
  constexpr int kEvery = kTurns ? T::kShape.multiplying_warpgroups : 1;  // of the block's tiles
  if (kHasBoxes<T> && a.stored) {
    if constexpr (!T::kShape.pixel_rows)
      OutputBoxes<T>::place_columns(a, block, warpgroup, static_cast<int>(threadIdx.x % 128));
  } else {
    TileColumns<T>::make_table(a, block);
  }
  clear_gaps<T>(a, block);
  ::cuda::ptx::mbarrier_arrive(&barriers().gaps_clear);
  ptx::named_barrier(kColumnsBarrier, kMultiplyingThreads);
  // Half a tile apart at first, one warpgroup multiplies while the other writes; where both wait for the same
  // stages of filters, they meet again.
  if (!kTurns && warpgroup == 1) wait_to_start(false);
  ptx::wait_for_kernel_before();  // which packs the filter, perhaps
  Multiplier<T> multiplier(a, block, warpgroup);
  TilesDone done(a.tile, kTurns ? warpgroup : 0);
  for (; done.next() < a.tiles; done.advance(kEvery)) {
    SumsOfSets<T> sums;
    if constexpr (T::kSets > 1 || T::kShape.least_columns < T::kShape.columns) {
#pragma unroll
      for (Sums<T::kSums>& set : sums) clear(set);
    }
    if (kTurns && done.count() > 0) wait_to_start(warpgroup == 0);
    const bool more = done.next() < a.tiles - static_cast<int32_t>(gridDim.x);
    multiplier.multiply(locate(a, done.next()), more, sums);
    if constexpr (T::kShape.pixel_major) {
#pragma unroll 1
      for (int set = 0; set < T::kSets; ++set) {
        PixelMajorWriter<T>(a, block, locate(a, done.next()), warpgroup, set).write(sums[0]);
        if constexpr (T::kSets > 1) sums[0] = sums[1];
      }
      continue;
    }
    if constexpr (kHasClusters<T>)
      if (a.tile.cluster_bits > 0) return ClusterSums<T>(a, block, warpgroup).write(sums[0]);
    const bool turn = done.count() / kEvery % 2 != 0;
    if constexpr (kHasBoxes<T> && T::kSets == 1) {
      if (a.stored) {
        BoxWriter<T>(a, block, done.next()).write(sums[0], turn);
        continue;
      }
    }
#pragma unroll 1
    for (int set = 0; set < T::kSets; ++set) {
      Writer<T>(a, block, locate(a, done.next()), set).write(sums[0]);
      if constexpr (T::kSets > 1) {
        sums[0] = sums[1];
        __syncwarp();  // lanes still read what the next set's sums are put in the place of
      }
    }
  }
}

/// What threads of several warps do side by side before any uses barriers.
template <class T>
__device__ __forceinline__ void prepare(const Arguments<typename T::Element>& a) {
  namespace ptx = ::cuda::ptx;
  constexpr int kUsers = arrivals<T>(T::kShape.takes_turns ? 128 : kMultiplyingThreads);
  constexpr int kSets = output_sets(T::kShape);
  constexpr bool kWgmma = T::kInstructions == Instructions::kWgmma;
  const int staging = staging_threads<T>(a.tile);
  const bool gathers = T::kShape.pixel_major && !a.boxed;  // see GatheredLines
  const bool copies = a.copied_bytes > 0 && !kRoundsCopies<T>;
  switch (threadIdx.x) {
    case 0:
      barriers().slabs.initialize(a.tile.slab_stages,
                                  a.pairs             ? 2
                                  : a.boxed           ? 1
                                  : copies || gathers ? staging
                                                      : arrivals<T>(staging),
                                  gathers ? kMultiplyingThreads : kUsers);
      break;
    case 32:
      barriers().filters.initialize(a.tile.filter_stages, arrivals<T>(kFilterThreads), kUsers);
      break;
    case 64:
      barriers().raw.initialize(a.tile.raw.stages, a.tile.raw.boxed ? 1 : kLineThreads,
                                a.tile.raw.transposed() ? staging / 32 : staging);
      ptx::mbarrier_init(&barriers().sums, 1);
      ptx::mbarrier_init(&barriers().gaps_clear, kMultiplyingThreads);
      if constexpr (kHasBoxes<T>) SlabTurns::initialize();
      for (int set = 0; set < kSets; ++set) {
        ptx::mbarrier_init(&barriers().outputs_full[set], kMultiplyingWarps / kSets);
        ptx::mbarrier_init(&barriers().outputs_empty[set], 1);
      }
      break;
    case 96:
      barriers().placed_for = {};
      if constexpr (kWgmma) prefetch_maps(a);
      break;
    default: return;
  }
  if constexpr (kWgmma) ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
}

/// Inputs to slabs; and, where they come as boxes, outputs away.
template <class T>
__device__ __forceinline__ void bring_windows(const Arguments<typename T::Element>& a,
                                              Block<T> block, int warp) {
  if constexpr (T::kShape.pixel_major) {
    if (!a.boxed) return GatheredLines<T>(a, block).run();
    if (warp == 0) load_lines<T>(a, LineBoxes<T>(a, block));
    return;
  }
  if constexpr (kHasBoxes<T>) {
    if (a.boxed) {
      if (warp == 0) BoxStaging<T>(a, block).run();
      if (warp > 0 && warp <= output_sets(T::kShape) && a.stored && ptx::elect())
        store_boxes<T>(a, block, warp - 1);
      return;
    }
    if constexpr (are_elements(T::kOperands) && !T::kShape.pixel_rows)
      if (a.tile.raw.transposed()) return TransposedStaging<T>(a, block).run();
  }
  if constexpr (T::kShape.held_units > 0)
    if (a.tile.held) return HeldStaging<T>(a, block).run();
  if constexpr (T::kInstructions == Instructions::kWgmma && !are_elements(T::kOperands))
    if (has_unit_offsets(a.tile, T::kOperands)) return PlacedStaging<T>(a, block).run();
  if constexpr (T::kShape.pixel_rows) {
    if constexpr (may_have_pixel_words(T::kShape)) {
      if (a.copied_bytes == 8) return PixelRowCopies<T, 4>(a, block).run();
      if (a.copied_bytes == 4) return PixelRowCopies<T, 2>(a, block).run();
    }
    if constexpr (may_have_loaded_pixels(T::kShape)) {
      if (a.vectors && a.tile.pixel_word == 4)
        return PixelRowLoads<T, 4, PixelSteps::kInWords>(a, block).run();
      if (a.vectors) return PixelRowLoads<T, 2, PixelSteps::kInWords>(a, block).run();
      if (a.tile.pixel_word > 0 && a.stride_w == 1)
        return PixelRowLoads<T, 2, PixelSteps::kNone>(a, block).run();
      if (a.tile.pixel_word > 0) return PixelRowLoads<T, 2, PixelSteps::kAny>(a, block).run();
    }
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
  prepare<T>(a);
  clear_lines<T>(a, block);
  __syncthreads();
  if constexpr (kHasBoxes<T>) {
    if (a.tile.shares_windows) {  // neither uses the other's barriers before they are
      ptx::arrive_in_cluster();
      ptx::wait_in_cluster();
    }
  }
  ptx::let_next_start();

  // The same for a warp, which the compiler must know to keep descriptors in uniform registers.
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp < T::kFirstMultiplier / 32) {
    if constexpr (kWgmma) ptx::give_up_registers<T::kStagingRegisters>();
    const int staging_warps = staging_threads<T>(a.tile) / 32;
    if (warp < staging_warps) {
      bring_windows<T>(a, block, warp);
    } else {
      load<T>(a, block, warp == T::kStagingThreads / 32);
    }
    if constexpr (kHasClusters<T>)
      if (a.tile.cluster_bits > 0) leave_room_for_sums<T>();
  } else {
    if constexpr (kWgmma) ptx::take_registers<T::kMultiplyingRegisters>();
    multiply_and_write<T>(a, block, (warp - T::kFirstMultiplier / 32) / 4);
  }
#endif
}

}  // namespace im2win::cuda::fused
