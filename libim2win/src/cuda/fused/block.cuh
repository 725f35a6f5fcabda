// What the warps of a block share, and the kernel's parameters.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/fused/operands.cuh"
#include "cuda/fused/pipeline.cuh"
#include "cuda/fused/shared.hpp"
#include "cuda/fused/tile.hpp"

namespace im2win::cuda::fused {

/// Named barriers; 0 is __syncthreads'.
enum : int {
  kStagingBarrier = 1,
  kColumnsBarrier = 2,  // among those who multiply
  kFirstStartBarrier = 3,
  kSecondStartBarrier = 4,  // of the multiplying warpgroups
  kSumsBarrier = 5,         // among all threads of a cluster's block
  kPatchesBarrier =
      12,  // of the first multiplying warpgroup; the others' follow. im2win_stem has those before
};

/// Of a multiplying warpgroup: until the other lets it start.
__device__ __forceinline__ void wait_to_start(bool is_first) {
  if (is_first) {
    ptx::named_barrier(kFirstStartBarrier, kMultiplyingThreads);
  } else {
    ptx::named_barrier(kSecondStartBarrier, kMultiplyingThreads);
  }
}
__device__ __forceinline__ void let_other_start(bool is_first) {
  if (is_first) {
    ptx::named_barrier_arrive(kSecondStartBarrier, kMultiplyingThreads);
  } else {
    ptx::named_barrier_arrive(kFirstStartBarrier, kMultiplyingThreads);
  }
}

constexpr int kMultiplyingWarps = kMultiplyingThreads / 32;

template <class Element_, Operands kOperands_, Instructions kInstructions_, KernelShape kShape_>
struct Kernel {
  using Element = Element_;
  static constexpr Operands kOperands = kOperands_;
  static constexpr Instructions kInstructions = kInstructions_;
  static constexpr KernelShape kShape = kShape_;
  static constexpr int kSums = kShape.sums(), kSets = kShape.sets();
  static constexpr int kStagingThreads = kShape.staging_threads();
  static constexpr bool kMayHaveLineWarp =
      kInstructions == Instructions::kWgmma && kShape.staging_warpgroups > 1;
  static constexpr int kFirstMultiplier = kShape.first_multiplier();
  // Of filters in shared memory, in units: from high operands to low ones, and from a step to the next.
  static constexpr int kFilterPart = 2 * kShape.filters;
  static constexpr int kFilterStep = traits(kOperands).parts * kFilterPart;
  // Of a thread, once the warpgroups have dealt anew what the block has from launch: sums, and what the
  // compiler was seen to need beside them.
  static constexpr int kLaunchRegisters = kShape.staging_warpgroups == 1 ? 168 : 128;
  static constexpr bool kHasLowSums = kOperands == Operands::kSplit &&
                                      kInstructions == Instructions::kWgmma &&
                                      kShape.has_low_sums();
  static constexpr int kMultiplyingRegisters =
      std::clamp(kShape.pixel_major              ? kShape.registers()
                 : kOperands != Operands::kSplit ? (kSets * kSums + 88) / 8 * 8
                 : kHasLowSums                   ? (3 * kSums + 48) / 8 * 8
                                                 : (2 * kSums + 56) / 8 * 8,
                 std::max(kLaunchRegisters, 136), kShape.registers());
  static constexpr int kStagingRegisters = kShape.staging_warpgroups == 1
                                               ? 3 * kLaunchRegisters - 2 * kMultiplyingRegisters
                                               : 2 * kLaunchRegisters - kMultiplyingRegisters;
};

/// Whether raw lines have a warp of their own.
template <class T>
__device__ __forceinline__ bool lines_have_warp(const Tile& tile) {
  return T::kMayHaveLineWarp && tile.line_warp;
}

/// Those that bring windows.
template <class T>
__device__ __forceinline__ int staging_threads(const Tile& tile) {
  return T::kStagingThreads - (lines_have_warp<T>(tile) ? kLineThreads : 0);
}

/// How many of so many threads arrive at the mbarrier of a slab or of filters. With mma.sync, whose operands
/// threads read for themselves, each of them; with wgmma, which reads by the async proxy, lane 0 of a warp
/// for all its lanes, once these have met.
template <class T>
constexpr int arrivals(int threads) {
  return T::kInstructions == Instructions::kMma ? threads : threads / 32;
}

/// Whether clusters may share tiles out.
template <class T>
constexpr bool kHasClusters = T::kInstructions == Instructions::kWgmma && !T::kShape.takes_turns &&
                              !T::kShape.pixel_major && T::kSets == 1;

/// Whether inputs may come as boxes, and outputs leave so.
template <class T>
constexpr bool kHasBoxes =
    T::kInstructions == Instructions::kWgmma && T::kOperands != Operands::kSplit;

/// Whether those who copy inputs to a slab round them there before they tell: see WindowStaging.
template <class T>
constexpr bool kRoundsCopies = T::kOperands == Operands::kTf32;

/// How a slab of split operands was scaled.
struct SlabScale {
  float inverse;
  Fit fit;
};

/// At the start of dynamic shared memory.
struct Barriers {
  Ring<kMaxSlabStages> slabs;
  Ring<kMaxFilterStages> filters;
  Ring<kMaxRawStages> raw;
  uint64_t outputs_full[2], outputs_empty[2];  // the boxes of 64 filters
  uint64_t sums;                               // from the other blocks of a cluster
  uint64_t gaps_clear;                         // those of slabs: see clear_gaps
  uint64_t other_has_room[kMaxSlabStages];     // the other block of a cluster: see SlabTurns
  SlabScale scales[kMaxSlabStages];
  Magnitudes magnitudes[2][kMaxStagingThreads / 32];
  Edges placed_for;                       // the table of places
  int32_t tiles_done[kMultiplyingWarps];  // of the block's
};
static_assert(sizeof(Barriers) <= kBarrierBytes);

__device__ __forceinline__ Barriers& barriers() {
  return *reinterpret_cast<Barriers*>(dynamic_shared_memory);
}

/// The parts of dynamic shared memory whose places depend on the tile.
template <class T>
struct Block {
  const SharedLayout& layout;

  __device__ __forceinline__ char* filter_stage(int stage) const {
    return dynamic_shared_memory + layout.filters + stage * layout.filter_stage;
  }
  __device__ __forceinline__ char* slab(int stage) const {
    return dynamic_shared_memory + layout.slabs + stage * layout.slab;
  }
  __device__ __forceinline__ char* raw(int stage) const {
    return dynamic_shared_memory + layout.raw + stage * layout.raw_stage;
  }
  __device__ __forceinline__ LineExtent* extents(int stage, int lines) const {
    return reinterpret_cast<LineExtent*>(dynamic_shared_memory + layout.extents) + stage * lines;
  }
  __device__ __forceinline__ Patch& patch(int multiplying_warp) const {
    return *reinterpret_cast<Patch*>(dynamic_shared_memory + layout.patches +
                                     multiplying_warp * layout.patch);
  }
  /// Of a warp: see kThreadSlots.
  __device__ __forceinline__ float4* slots(int multiplying_warp) const {
    return reinterpret_cast<float4*>(dynamic_shared_memory + layout.slots) +
           multiplying_warp * 32 * kThreadSlots;
  }
  /// A warpgroup's sums for the blocks of its cluster, and the block's from these: in the room of filters and
  /// slabs.
  __device__ __forceinline__ char* outgoing(int warpgroup) const {
    return dynamic_shared_memory + layout.filters + warpgroup * outgoing_bytes(T::kShape);
  }
  __device__ __forceinline__ char* incoming() const {
    return outgoing(T::kShape.multiplying_warpgroups);
  }
  /// Of some of a tile's outputs.
  __device__ __forceinline__ char* box(int number) const {
    return dynamic_shared_memory + layout.boxes + number * layout.box;
  }
  /// Where a multiplying warpgroup's columns are in boxes: in the room of the table of columns.
  __device__ __forceinline__ uint16_t* box_places(int warpgroup) const {
    return reinterpret_cast<uint16_t*>(columns()) + warpgroup * T::kShape.columns;
  }
  /// Where columns are in whole planes.
  __device__ __forceinline__ uint16_t* plane_places() const {
    return reinterpret_cast<uint16_t*>(dynamic_shared_memory + layout.plane_places);
  }
  __device__ __forceinline__ Place* places() const {
    return reinterpret_cast<Place*>(dynamic_shared_memory + layout.places);
  }
  /// Or, of units: see has_unit_offsets.
  __device__ __forceinline__ int16_t* unit_offsets() const {
    return reinterpret_cast<int16_t*>(places());
  }
  __device__ __forceinline__ ColumnPlace* columns() const {
    return reinterpret_cast<ColumnPlace*>(dynamic_shared_memory + layout.columns);
  }
};

}  // namespace im2win::cuda::fused
