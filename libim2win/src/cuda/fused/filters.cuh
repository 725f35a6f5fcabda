// The warp that brings packed filters to shared memory.
#pragma once

#include <cuda_pipeline_primitives.h>
#include <cuda/ptx>

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"

namespace im2win::cuda::fused {

/// By a warp: the filters of tile after tile, a batch of steps a stage.
template <class T>
class FilterStaging {
 public:
  __device__ __forceinline__ FilterStaging(const Arguments<typename T::Element>& a, Block<T> block)
      : a_(a), block_(block), lane_(static_cast<int>(threadIdx.x % 32)) {}

  __device__ __forceinline__ void run() {
    if (T::kInstructions == Instructions::kWgmma && lane_ != 0) return;  // bulk copies need one
    for (int32_t number = blockIdx.x; number < a_.tiles; number += gridDim.x) {
      stage_tile(locate(a_, number));
      if (a_.tile.resident) break;
    }
    if constexpr (T::kInstructions == Instructions::kMma) hand_over();
  }

 private:
  static constexpr OperandTraits kTraits = traits(T::kOperands);
  static constexpr int kStepBytes = kTraits.parts * 2 * T::kShape.filters * kUnitBytes;

  __device__ __forceinline__ void stage_tile(const TilePosition& tile) {
    const char* from =
        a_.filters +
        (int64_t{tile.group} * a_.filter_tiles.divisor + tile.filter_tile) * a_.packed.tile_bytes;
    for (int tap_group = 0; tap_group < a_.tile.tap_groups; ++tap_group) {
      const int steps = a_.tile.steps[kind_of(a_.tile, tap_group)].count;
      for (int chunk = 0; chunk < a_.tile.chunks; ++chunk) {
        for (int step = 0, count; step < steps; step += count) {
          count = batch_of(kTraits, steps - step);
          const int bytes = count * kStepBytes;
          if constexpr (T::kInstructions == Instructions::kWgmma) {
            copy_in_bulk(from, static_cast<uint32_t>(bytes));
          } else {
            copy(from, bytes);
          }
          from += bytes;
          cursor_.advance(a_.tile.filter_stages);
        }
      }
    }
  }

  __device__ __forceinline__ void copy_in_bulk(const char* from, uint32_t bytes) {
    namespace ptx = ::cuda::ptx;
    uint64_t* full = &barriers().filters.full[cursor_.stage];
    barriers().filters.wait_empty(cursor_);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, full,
                                   bytes);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, block_.filter_stage(cursor_.stage),
                       from, bytes, full);
  }

  __device__ __forceinline__ void copy(const char* from, int bytes) {
    if (__any_sync(~0u, !barriers().filters.is_empty(cursor_))) hand_over();
    barriers().filters.wait_empty(cursor_);
    char* to = block_.filter_stage(cursor_.stage);
    for (int i = lane_ * kUnitBytes; i < bytes; i += 32 * kUnitBytes)
      __pipeline_memcpy_async(to + i, from + i, kUnitBytes, 0);
    __pipeline_commit();
    ++copying_;
  }

  /// The stages whose copies are under way, once they are done.
  __device__ __forceinline__ void hand_over() {
    if (copying_ == 0) return;
    __pipeline_wait_prior(0);
    __syncwarp();
    for (; copying_ > 0; --copying_) {
      const int back = cursor_.stage - copying_;
      if (lane_ == 0)
        barriers().filters.arrive_full(back < 0 ? back + a_.tile.filter_stages : back);
    }
  }

  const Arguments<typename T::Element>& a_;
  Block<T> block_;
  Cursor cursor_;
  int lane_;
  int copying_ = 0;  // stages before the cursor that are being copied
};

}  // namespace im2win::cuda::fused
