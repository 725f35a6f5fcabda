// grouped: groups of few channels with 16 bits, by mma.sync, without the zeros of groups merged to wide ones. A
// block keeps the filters of its slab in shared memory and goes from box to box, the next of which comes while one is
// multiplied.
#pragma once

#include <cuda_pipeline.h>

#include "cuda/grouped/outputs.cuh"
#include "cuda/grouped/staging.cuh"

namespace im2win::cuda::grouped {

/// Of a box that is in shared memory. Warps take turns at its groups of positions and at the slab's sets.
template <class T>
__device__ __forceinline__ void multiply_box(const Arguments<typename T::Element>& a,
                                             const Slab& slab, const OutputPlace& at,
                                             const char* box, bool is_last) {
  const int positions = a.tile.strips * a.tile.columns, groups = a.tile.position_groups();
  const int parts = a.tile.sets / T::kSets;
#pragma unroll 1
  for (int item = threadIdx.x / 32; item < parts * groups; item += kWarps) {
    const auto [part, group] = a.position_groups.divide(item);
    const int filter = part * T::kFilters;
    if (slab.filter + filter >= a.filters) break;
    const int position = group * kPositions + lane() % kPositions;
    const auto [strip, column] = a.box_columns.divide(min(position, positions - 1));
    const int row = strip * kStripRows;
    const uint32_t pixel = ptx::shared_address(box) + row * a.stride_h * a.layout.row_pitch() +
                           column * a.layout.pixel_pitch + part * T::kSets * set_bytes<T>(a);
    Sums<T> sums = {};
    if (a.tile.tap_rows == kSharedTapRows)
      add_products<T, kSharedTapRows>(a, pixel, filter_address(a, filter), sums);
    else
      add_products<T, 1>(a, pixel, filter_address(a, filter), sums);
    // Not before: few blocks leave room on other multiprocessors, where all of the next kernel's would crowd.
    if (is_last) ptx::let_next_start();
    const LaneOutputs<T> outputs(a, {at.n, at.p + row, at.q + column}, slab.filter + filter,
                                 position < positions && at.q + column < a.q);
    write(a, outputs, filter, sums);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads, kMostResident)
    grouped_kernel(const __grid_constant__ Arguments<typename T::Element> a) {
  const auto [first, number] = a.slab_count.divide(static_cast<int>(block_index()));
  const Slab slab(a, number);
  tabulate_offsets(a);
  ptx::wait_for_kernel_before();
  stage_filters<T>(a, slab);
  load_biases(a, slab);
  stage_box(a, slab, box_place(a, first), box_at(a, 0));
  __pipeline_commit();
#pragma unroll 1
  for (int box = first, stage = 0; box < a.boxes; box += a.boxes_at_once, stage ^= 1) {
    __pipeline_wait_prior(0);
    __syncthreads();  // the box is there, and the other stage has been read
    const int next = box + a.boxes_at_once;
    if (next < a.boxes) stage_box(a, slab, box_place(a, next), box_at(a, stage ^ 1));
    __pipeline_commit();
    multiply_box<T>(a, slab, box_place(a, box), box_at(a, stage), next >= a.boxes);
  }
}

}  // namespace im2win::cuda::grouped
