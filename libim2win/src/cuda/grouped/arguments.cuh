// What the kernel of `grouped` knows of the problem, which part of it a block has, and what is in shared memory.
#pragma once

#include <cstdint>

#include "cuda/direct.cuh"
#include "cuda/grouped/tile.hpp"
#include "cuda/launch.cuh"
#include "cuda/places.cuh"
#include "cuda/ptx.cuh"

extern __shared__ __align__(16) char dynamic_shared_memory[];

namespace im2win::cuda::grouped {

constexpr int kWordBytes = 16;

/// Plain data.
template <class Element>
struct Arguments {
  DirectArguments<Element, float> exact;
  Tile tile;
  Layout layout;
  Set set;
  int64_t channels, filters;  // of all groups
  int h, w, p, q;
  int stride_h, stride_w, dilation_h, dilation_w, padding_top, padding_left;
  int boxes, boxes_at_once, slabs;
  int tap_count;   // of a row of taps
  int copy;        // elements of a filter
  bool has_zeros;  // among the factors of sums; see finish()
  bool has_input_words,
      has_output_words;  // which are aligned; or elements are loaded and stored one by one
  Divisor slab_count, boxes_down, boxes_across;
  Divisor slab_words, set_words;  // of a pixel
  Divisor phases, phase_columns;
  Divisor rows, columns;  // of pixels under a box
  Divisor row_words, filter_words, filter_half_words;
  Divisor set_filters, group_channels, taps_across;
  Divisor box_columns, position_groups;

  Arguments(const Problem& problem, const Tile& its_tile, const DeviceLimits& device)
      : exact(problem),
        tile(its_tile),
        layout(layout_of(problem, tile)),
        set(set_of(problem)),
        channels(problem.c),
        filters(problem.k),
        h(static_cast<int>(problem.h)),
        w(static_cast<int>(problem.w)),
        p(static_cast<int>(problem.p)),
        q(static_cast<int>(problem.q)),
        stride_h(static_cast<int>(problem.stride_h)),
        stride_w(static_cast<int>(problem.stride_w)),
        dilation_h(static_cast<int>(problem.r > 1 ? problem.dilation_h : 0)),
        dilation_w(static_cast<int>(problem.s > 1 ? problem.dilation_w : 0)),
        padding_top(static_cast<int>(problem.padding_top)),
        padding_left(static_cast<int>(problem.padding_left)),
        boxes(boxes_of(problem, tile)),
        boxes_at_once(grouped::boxes_at_once(problem, tile, device)),
        slabs(slabs_of(problem, tile)),
        tap_count(static_cast<int>(problem.r * problem.s / tile.tap_rows)),
        copy(1),
        has_zeros(problem.is_padded() || set.groups > 1 ||
                  tap_count * set.channels / kWord % 2 != 0),
        has_input_words(are_words(problem.input)),
        has_output_words(are_words(problem.output)),
        slab_count(slabs),
        boxes_down(ceil_div(problem.p, tile.box_rows())),
        boxes_across(ceil_div(problem.q, tile.columns)),
        slab_words(tile.sets * set.channels / kWord),
        set_words(set.channels / kWord),
        phases(problem.stride_w),
        phase_columns(layout.phase_columns),
        rows(layout.rows),
        columns(layout.columns),
        row_words(2 * layout.steps),
        filter_words(2 * layout.steps * tile.tap_rows),
        filter_half_words(4 * layout.steps * tile.tap_rows),
        set_filters(set.filters),
        group_channels(problem.c_per_group()),
        taps_across(problem.s),
        box_columns(tile.columns),
        position_groups(tile.position_groups()) {
    drop_steps_not_taken(problem, exact);
  }
};

/// Of the sets that a block has, the first channel and filter.
struct Slab {
  int64_t channel, filter;

  template <class Element>
  __device__ __forceinline__ Slab(const Arguments<Element>& a, int number)
      : channel(int64_t{number} * a.tile.sets * a.set.channels),
        filter(int64_t{number} * a.tile.sets * a.set.filters) {}
};

/// Of all filters.
struct OutputPlace {
  int n, p, q;
};

/// Where a box begins.
template <class Element>
__device__ __forceinline__ OutputPlace box_place(const Arguments<Element>& a, int box) {
  const auto [row, across] = a.boxes_across.divide(box);
  const auto [n, down] = a.boxes_down.divide(row);
  return {n, down * a.tile.box_rows(), across * a.tile.columns};
}

/// At the beginning of shared memory; offsets of taps follow, filters and boxes: see Layout.
struct Shared {
  float biases[kMostSlab];
  alignas(16) float patches[kWarps][kPositions][kPatchPitch];
};
static_assert(sizeof(Shared) == kFixedBytes);

__device__ __forceinline__ Shared& shared() {
  return *reinterpret_cast<Shared*>(dynamic_shared_memory);
}
__device__ __forceinline__ int lane() { return threadIdx.x % 32; }
/// The warp's.
__device__ __forceinline__ float (&patch())[kPositions][kPatchPitch] {
  return shared().patches[threadIdx.x / 32];
}
/// By which a tap's word of channels is after a window's first one; of both words of each step.
__device__ __forceinline__ int* word_offsets() {
  return reinterpret_cast<int*>(dynamic_shared_memory + sizeof(Shared));
}
template <class Element>
__device__ __forceinline__ char* box_at(const Arguments<Element>& a, int stage) {
  return dynamic_shared_memory + a.layout.boxes_begin + stage * a.layout.box_bytes;
}

}  // namespace im2win::cuda::grouped
