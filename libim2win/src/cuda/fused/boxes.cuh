// Boxes: inputs that come to slabs, and outputs that leave, by the tensor memory accelerator. A thread
// starts each copy; none computes an address or holds what is under way.
//
// Inputs that are congruent modulo the strides are a tensor of their own, a phase: in it a plane's
// positions are neighbours. What is outside, padding among it, comes as zeros.
#pragma once

#include <cuda/ptx>

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/slabs.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// By a thread: asks for the descriptions of tensors, lest the first box of each wait for its own.
template <class Element>
__device__ __forceinline__ void prefetch_maps(const Arguments<Element>& a) {
  const RawLines& lines = a.tile.raw;
  const int inputs = a.boxed ? a.stride_h * a.stride_w : lines.apart ? a.stride_h : 1;
  for (int i = 0; (a.boxed || lines.boxed) && i < inputs; ++i) ptx::prefetch(a.inputs[i]);
  if (a.filters_boxed) ptx::prefetch(a.filter);
  if (a.stored) ptx::prefetch(a.output);
}

/// By a thread: brings the planes of slab after slab.
template <class T>
class BoxStaging {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ BoxStaging(const Arguments<Element>& a, Block<T> block)
      : a_(a), block_(block) {}

  __device__ __forceinline__ void run() {
    SlabWalk<Element> at(a_);
    wait_for_inputs(a_);
    for (; !at.ended(a_); at.advance(a_)) stage(at.tile, at.slab.tap_group, at.slab.chunk);
  }

 private:
  __device__ __forceinline__ void stage(const TilePosition& tile, int tap_group, int chunk) {
    const int channel =
        tile.group * static_cast<int>(a_.channels) + chunk * a_.tile.units * a_.tile.unit_channels;
    barriers().slabs.wait_empty(cursor_);
    if constexpr (T::kShape.pixel_rows) {
      bring_pixels(tile, channel);
    } else {
      bring_planes(tile, first_tap(a_, tap_group), channel);
    }
    cursor_.advance(a_.tile.slab_stages);
  }

  __device__ __forceinline__ uint64_t* expect(int bytes) const {
    namespace ptx = ::cuda::ptx;
    uint64_t* full = &barriers().slabs.full[cursor_.stage];
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, full,
                                   static_cast<uint32_t>(bytes));
    return full;
  }

  __device__ __forceinline__ void bring_planes(const TilePosition& tile, const Tap& tap,
                                               int channel) const {
    namespace ptx = ::cuda::ptx;
    const auto [phase_row, down] = phase_of_row(a_, tap.row);
    const int row_bytes = a_.tile.row_units * kUnitBytes;
    uint64_t* const full =
        expect(a_.tile.planes * a_.tile.box_rows * a_.tile.images * a_.tile.pitch * row_bytes);
    char* to = block_.slab(cursor_.stage);
    for (int plane = 0; plane < a_.tile.planes; ++plane) {
      const auto [right, phase_column] =
          a_.phase_columns.divide(a_.tile.origin[tap.column + plane] - a_.padding_left +
                                  a_.phase_columns_left * a_.stride_w);
      const int32_t at[] = {channel, tile.q + right - a_.phase_columns_left,
                            static_cast<int32_t>(tile.n), tile.p + down};
      ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, to,
                                &a_.inputs[phase_row * a_.stride_w + phase_column], at, full);
      to += a_.tile.plane_positions * row_bytes;
    }
  }

  /// 64 columns are of one row.
  __device__ __forceinline__ void bring_pixels(const TilePosition& tile, int channel) const {
    namespace ptx = ::cuda::ptx;
    const int block_bytes = a_.tile.pixel_block() * kUnitBytes;
    uint64_t* const full = expect(T::kShape.columns / kRowPixels * block_bytes);
    char* to = block_.slab(cursor_.stage);
#pragma unroll 1
    for (int column = 0; column < T::kShape.columns; column += kRowPixels, to += block_bytes) {
      const auto [row, pixel] = a_.pitch.divide(tile.begin + column);
      const int32_t at[] = {pixel, channel, tile.p + row, 0};
      ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, to, &a_.inputs[0], at, full);
    }
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  Cursor cursor_;
};

/// Filters that a row of a box has.
template <class Element>
constexpr int kBoxFilters = kRowBytes / static_cast<int>(sizeof(Element));

/// The boxes of a set, from a filter of the group on.
template <class T>
__device__ __forceinline__ void store_planes(const Arguments<typename T::Element>& a,
                                             Block<T> block, const TilePosition& tile,
                                             int first_filter, int set) {
  namespace ptx = ::cuda::ptx;
  constexpr int kFilters = kBoxFilters<typename T::Element>, kBoxes = kBoxedFilters / kFilters;
  for (int i = 0; i < kBoxes; ++i) {
    const int filter = first_filter + i * kFilters;
    if (filter >= a.filters_per_group) break;
    const int32_t at[] = {tile.group * static_cast<int>(a.filters_per_group) + filter, tile.q,
                          static_cast<int32_t>(tile.n), tile.p};
    ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &a.output, at,
                              block.box(set * kBoxes + i));
  }
}

/// Likewise, of 64 pixels each.
template <class T>
__device__ __forceinline__ void store_pixels(const Arguments<typename T::Element>& a,
                                             Block<T> block, const TilePosition& tile, int filter,
                                             int set) {
  namespace ptx = ::cuda::ptx;
  constexpr int kBoxes = T::kShape.columns / kRowPixels;
  if (filter >= a.filters_per_group) return;
#pragma unroll 1
  for (int i = 0; i < kBoxes; ++i) {
    const auto [row, pixel] = a.pitch.divide(tile.begin + i * kRowPixels);
    const int32_t at[] = {pixel, tile.group * static_cast<int>(a.filters_per_group) + filter,
                          tile.p + row, 0};
    if (at[2] < a.p)
      ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &a.output, at,
                                block.box(set * kBoxes + i));
  }
}

/// By a thread: takes the outputs of a set of filters away, or of a warpgroup that takes turns, tile after
/// tile, when all their warps have put them.
template <class T>
__device__ __forceinline__ void store_boxes(const Arguments<typename T::Element>& a, Block<T> block,
                                            int set) {
  namespace ptx = ::cuda::ptx;
  constexpr bool kTurns = T::kShape.takes_turns;
  const auto blocks = static_cast<int32_t>(gridDim.x);
  uint32_t parity = 0;
  for (int32_t number = static_cast<int32_t>(blockIdx.x) + (kTurns ? set * blocks : 0);
       number < a.tiles;
       number += kTurns ? T::kShape.multiplying_warpgroups * blocks : blocks, parity ^= 1) {
    const TilePosition tile = locate(a, number);
    const int filter = tile.filter_tile * T::kShape.filters + (kTurns ? 0 : set * kBoxedFilters);
    wait(&barriers().outputs_full[set], parity);
    if constexpr (T::kShape.pixel_rows) {
      store_pixels<T>(a, block, tile, filter, set);
    } else {
      store_planes<T>(a, block, tile, filter, set);
    }
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{});
    ptx::mbarrier_arrive(&barriers().outputs_empty[set]);
  }
}

/// The boxes of a tile's outputs, for a warp that puts its sums there.
template <class T>
class OutputBoxes {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ OutputBoxes(const Tile& tile, Block<T> block, int warpgroup,
                                         int filter)
      : rows_(block.box_rows(warpgroup)),
        box_(block.box((T::kShape.takes_turns ? warpgroup * kBoxedFilters + filter : filter) /
                       kBoxFilters<Element>)),
        filter_(filter % kBoxFilters<Element>),
        outputs_(tile.output_rows()) {}

  /// The rows of a warpgroup's columns, which are the same for all tiles.
  __device__ __forceinline__ static void place_columns(const Arguments<Element>& a, Block<T> block,
                                                       int warpgroup, int thread) {
    const int first = T::kShape.divides_columns() ? warpgroup * a.tile.warpgroup_columns : 0;
    for (int column = thread; column < T::kShape.columns; column += 128) {
      const auto [line, in_line] = a.column_pitch.divide(first + column);
      const bool inside = column < a.tile.warpgroup_columns && line < a.tile.rows * a.tile.images &&
                          in_line < a.tile.columns;
      block.box_rows(warpgroup)[column] =
          static_cast<uint16_t>(inside ? line * a.tile.columns + in_line : a.tile.output_rows());
    }
  }

  /// A column's 16 filters of the warp. Lanes whose columns are neighbours have different banks.
  struct Row {
    char* row;
    int swizzle, first;  // in words of 16 bytes
    bool is_output;

    __device__ __forceinline__ char* word(int filter) const {
      const int word = first + filter * static_cast<int>(sizeof(Element)) / kUnitBytes;
      return row + (word ^ swizzle) * kUnitBytes;
    }
    __device__ __forceinline__ Element* at(int filter) const {
      return reinterpret_cast<Element*>(word(filter)) + filter % kWordFilters;
    }
  };

  __device__ __forceinline__ Row row(int column) const {
    const int row = rows_[column];
    return {box_ + row * kRowBytes, row & 7, filter_ / kWordFilters, row < outputs_};
  }

 private:
  static constexpr int kWordFilters = kUnitBytes / static_cast<int>(sizeof(Element));

  const uint16_t* rows_;
  char* box_;
  int filter_;   // the warp's first, of the box
  int outputs_;  // rows that are
};

/// Likewise, of rows of pixels.
template <class T>
class OutputRows {
 public:
  using Element = typename T::Element;

  /// `filter`: the warp's first, of the set's.
  __device__ __forceinline__ OutputRows(Block<T> block, int set, int filter)
      : boxes_(block.box(set * kBoxes) + filter * kRowBytes) {}

  /// Where eight columns of one of the warp's filters are. Those of eight filters have different banks.
  __device__ __forceinline__ char* word(int filter, int column) const {
    const int word = column % kRowPixels / kWordPixels ^ filter % 8;
    return boxes_ + column / kRowPixels * kBoxBytes + filter * kRowBytes + word * kUnitBytes;
  }
  __device__ __forceinline__ Element* at(int filter, int column) const {
    return reinterpret_cast<Element*>(word(filter, column)) + column % kWordPixels;
  }

 private:
  static constexpr int kBoxes = T::kShape.columns / kRowPixels;
  static constexpr int kBoxBytes = kBoxedFilters * kRowBytes;
  static constexpr int kWordPixels = kUnitBytes / static_cast<int>(sizeof(Element));

  char* boxes_;
};

}  // namespace im2win::cuda::fused
