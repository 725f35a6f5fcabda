// Zeros in shared memory where nobody writes and somebody reads.
#pragma once

#include <cuda/ptx>

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"

namespace im2win::cuda::fused {

__device__ __forceinline__ void clear(char* memory, int unit) {
  *reinterpret_cast<uint4*>(memory + unit * kUnitBytes) = make_uint4(0, 0, 0, 0);
}

/// See SharedLayout. A slab has lines of units with room at their ends: each of a part's units; or planes
/// that are boxes. By the threads that multiply: who stages takes longer to begin. Where no sum is looked into, those of
/// columns that are no outputs may be anything.
template <class T>
__device__ __forceinline__ void clear_gaps(const Arguments<typename T::Element>& a,
                                           Block<T> block) {
  if (T::kShape.pixel_rows || T::kShape.pixel_major || !a.rechecks) return;
  const Tile& tile = a.tile;
  const int thread = static_cast<int>(threadIdx.x) - T::kFirstMultiplier;
  const int box = tile.box_rows * tile.images * tile.pitch;
  const int lines = tile.boxed() ? tile.planes : traits(T::kOperands).parts * tile.units;
  const int pitch = tile.boxed() ? tile.plane_positions * tile.row_units : tile.positions_pitch;
  const int used = tile.boxed() ? box * tile.row_units : tile.positions;
  const int gaps = lines * (pitch - used), gap = pitch - used;
  const int overrun = tile.overrun * tile.row_units;
#pragma unroll 1
  for (int i = thread; i < gaps + overrun; i += kMultiplyingThreads) {
    const int unit = i < gaps ? i / gap * pitch + used + i % gap : lines * pitch + i - gaps;
#pragma unroll 1
    for (int stage = 0; stage < tile.slab_stages; ++stage) clear(block.slab(stage), unit);
  }
  if constexpr (T::kInstructions == Instructions::kWgmma)
    ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
}

/// By those who stage, before the first slab: for inputs, and for gaps, where boxes have positions that are staged,
/// too, if the input cannot come as boxes, and transposed pixels go that have no position.
template <class Element>
__device__ __forceinline__ void wait_to_stage(const Arguments<Element>& a) {
  wait_for_inputs(a);
  wait(&barriers().gaps_clear, 0);
}

/// Lines of channels that units have and the input has not stay as they are here.
template <class T>
__device__ __forceinline__ void clear_lines(const Arguments<typename T::Element>& a,
                                            Block<T> block) {
  if (a.tile.unit_columns == 1) return;
#pragma unroll 1
  for (int stage = 0; stage < a.tile.raw.stages; ++stage)
#pragma unroll 1
    for (int i = threadIdx.x; i < a.shared.raw_stage / kUnitBytes; i += T::kShape.threads())
      clear(block.raw(stage), i);
  if constexpr (T::kInstructions == Instructions::kWgmma)
    ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
}

}  // namespace im2win::cuda::fused
