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
#include "cuda/fused/slab_turns.cuh"
#include "cuda/fused/slabs.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// By a thread: asks for the descriptions of tensors, lest the first box of each wait for its own.
template <class Element>
__device__ __forceinline__ void prefetch_maps(const Arguments<Element>& a) {
  const RawLines& lines = a.tile.raw;
  const int inputs = !lines.boxed ? a.stride_h * a.stride_w : lines.apart ? a.stride_h : 1;
  const bool has_inputs = a.boxed || (lines.boxed && !a.tile.from_lines);
  for (int i = 0; has_inputs && i < inputs; ++i) ptx::prefetch(a.inputs[i]);
  if (a.filters_boxed) ptx::prefetch(a.filter);
  if (a.stored) ptx::prefetch(a.output);
  if (a.stored && a.outputs.residual_data() != nullptr) ptx::prefetch(a.residual);
}

/// By a thread of a warp: brings the planes of slab after slab.
template <class T>
class BoxStaging {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ BoxStaging(const Arguments<Element>& a, Block<T> block)
      : a_(a),
        to_(barriers().slabs, a.tile.slab_stages, block.slab(0), a.shared.slab),
        slab_bytes_(static_cast<uint32_t>(ptx::unknown(slab_bytes(a.tile)))),
        slab_channels_(ptx::unknown(a.tile.units * a.tile.unit_channels)) {}

  __device__ __forceinline__ void run() {
    SlabWalk<Element> at(a_);
    wait_for_inputs(a_);
    if (!ptx::elect()) return;
    for (; !at.ended(a_); at.leave_group(a_)) {
      enter_group(at);
      for (int slabs = at.slab.of_group(a_.tile); slabs > 0; --slabs) {
        bring(at.tile);
        channel_ += slab_channels_;
        to_.advance();
      }
    }
  }

 private:
  /// A plane's first column, and which of the inputs it is of.
  struct Plane {
    int column, phase;
  };

  /// Where slabs are is found before there is room for them: what is left then is to start copies.
  __device__ __forceinline__ void enter_group(const SlabWalk<Element>& at) {
    channel_ = at.tile.group * static_cast<int>(a_.channels) +
               at.slab.chunk * a_.tile.units * a_.tile.unit_channels;
    if constexpr (T::kShape.pixel_rows) return;
    const Tap tap = first_tap(a_, at.slab.tap_group);
    const auto [phase_row, down] = phase_of_row(a_, tap.row);
    row_ = at.tile.p + down;
    tap_column_ = tap.column;
    first_phase_ = phase_row * a_.stride_w;
    first_plane_ = plane(at.tile, 0);
  }

  /// The next slab, when there is room.
  __device__ __forceinline__ void bring(const TilePosition& tile) {
    to_.wait_for_room();
    to_.announce(slab_bytes_);
    if constexpr (T::kShape.pixel_rows) {
      bring_pixels(tile);
    } else if (!a_.tile.shares_windows) {
      bring_planes(tile);
    } else if (turns_.is_own()) {
      bring_planes(tile, SlabTurns::kBoth);
    }
  }

  /// To the blocks of a cluster, if any are given.
  template <class... Blocks>
  __device__ __forceinline__ void bring_planes(const TilePosition& tile, Blocks... blocks) const {
    namespace ptx = ::cuda::ptx;
    Plane plane = first_plane_;
    char* to = to_.to();
    uint64_t* const full = to_.full();
    for (int i = 0;;) {
      const int32_t at[] = {channel_, plane.column, static_cast<int32_t>(tile.n), row_};
      ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, to, &a_.inputs[plane.phase],
                                at, full, blocks...);
      if (++i == a_.tile.planes) return;
      plane = this->plane(tile, i);
      to += a_.tile.plane_positions * a_.tile.row_units * kUnitBytes;
    }
  }

  __device__ __forceinline__ Plane plane(const TilePosition& tile, int number) const {
    const auto [right, phase_column] =
        a_.phase_columns.divide(a_.tile.origin[tap_column_ + number] - a_.padding_left +
                                a_.phase_columns_left * a_.stride_w);
    return {tile.q + right - a_.phase_columns_left, first_phase_ + phase_column};
  }

  /// 64 columns are of one row.
  __device__ __forceinline__ void bring_pixels(const TilePosition& tile) const {
    namespace ptx = ::cuda::ptx;
    char* to = to_.to();
    uint64_t* const full = to_.full();
#pragma unroll 1
    for (int column = 0; column < T::kShape.columns; column += kRowPixels) {
      const auto [row, pixel] = a_.pitch.divide(tile.begin + column);
      const int32_t at[] = {pixel, channel_, tile.p + row, 0};
      ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, to, &a_.inputs[0], at, full);
      to += a_.tile.pixel_block() * kUnitBytes;
    }
  }

  __device__ __forceinline__ static int slab_bytes(const Tile& tile) {
    if (T::kShape.pixel_rows)
      return T::kShape.columns / kRowPixels * tile.pixel_block() * kUnitBytes;
    return tile.planes * tile.box_rows * tile.images * tile.pitch * tile.row_units * kUnitBytes;
  }

  const Arguments<Element>& a_;
  FillCursor to_;
  SlabTurns turns_;
  uint32_t slab_bytes_;
  int32_t slab_channels_;
  int channel_ = 0;  // the slab's first
  // Of the tap group:
  int row_ = 0, tap_column_ = 0, first_phase_ = 0;
  Plane first_plane_ = {};
};

/// Filters that a row of a box has.
template <class Element>
constexpr int kBoxFilters = kRowBytes / static_cast<int>(sizeof(Element));

/// Calls copy(place in the tensor, box) for those of a set that exist, from a filter of the group on.
template <class T, class Copy>
__device__ __forceinline__ void for_planes(const Arguments<typename T::Element>& a, Block<T> block,
                                           const TilePosition& tile, int first_filter, int set,
                                           const Copy& copy) {
  constexpr int kFilters = kBoxFilters<typename T::Element>, kBoxes = kBoxedFilters / kFilters;
  for (int i = 0; i < kBoxes; ++i) {
    const int filter = first_filter + i * kFilters;
    if (filter >= a.filters_per_group) break;
    const int32_t at[] = {tile.group * static_cast<int>(a.filters_per_group) + filter, tile.q,
                          static_cast<int32_t>(tile.n), tile.p};
    copy(at, block.box(set * kBoxes + i));
  }
}

/// Likewise, of 64 pixels each.
template <class T, class Copy>
__device__ __forceinline__ void for_pixels(const Arguments<typename T::Element>& a, Block<T> block,
                                           const TilePosition& tile, int filter, int set,
                                           const Copy& copy) {
  constexpr int kBoxes = T::kShape.columns / kRowPixels;
  if (filter >= a.filters_per_group) return;
#pragma unroll 1
  for (int i = 0; i < kBoxes; ++i) {
    const auto [row, pixel] = a.pitch.divide(tile.begin + i * kRowPixels);
    const int32_t at[] = {pixel, tile.group * static_cast<int>(a.filters_per_group) + filter,
                          tile.p + row, 0};
    if (at[2] < a.p) copy(at, block.box(set * kBoxes + i));
  }
}

template <class T, class Copy>
__device__ __forceinline__ void for_boxes(const Arguments<typename T::Element>& a, Block<T> block,
                                          const TilePosition& tile, int filter, int set,
                                          const Copy& copy) {
  if constexpr (T::kShape.pixel_rows) {
    for_pixels<T>(a, block, tile, filter, set, copy);
  } else {
    for_planes<T>(a, block, tile, filter, set, copy);
  }
}

/// What stores boxes, for for_boxes.
template <class Element>
__device__ __forceinline__ auto to_output(const Arguments<Element>& a) {
  return [&a](const int32_t(&at)[4], const char* box) {
    namespace ptx = ::cuda::ptx;
    ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &a.output, at, box);
  };
}

/// And what brings the residual to where outputs will be put; so many bytes each.
template <class Element>
__device__ __forceinline__ auto from_residual(const Arguments<Element>& a, uint32_t bytes,
                                              uint64_t* barrier) {
  return [&a, bytes, barrier](const int32_t(&at)[4], char* box) {
    namespace ptx = ::cuda::ptx;
    ptx::mbarrier_expect_tx(ptx::sem_relaxed, ptx::scope_cta, ptx::space_shared, barrier, bytes);
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, box, &a.residual, at, barrier);
  };
}

/// By a thread: takes the outputs of a set of filters away, or of a warpgroup that takes turns, tile after
/// tile, when all their warps have put them. A residual comes to the boxes before.
template <class T>
__device__ __forceinline__ void store_boxes(const Arguments<typename T::Element>& a, Block<T> block,
                                            int set) {
  namespace ptx = ::cuda::ptx;
  constexpr bool kTurns = T::kShape.takes_turns;
  const bool has_residual = a.outputs.residual_data() != nullptr;
  const uint32_t box_bytes =
      (T::kShape.pixel_rows ? kBoxedFilters : a.tile.output_rows()) * kRowBytes;
  uint64_t* const empty = &barriers().outputs_empty[set];
  if (has_residual) wait_for_inputs(a);
  const auto blocks = static_cast<int32_t>(gridDim.x);
  uint32_t parity = 0;
  for (int32_t number = static_cast<int32_t>(blockIdx.x) + (kTurns ? set * blocks : 0);
       number < a.tiles;
       number += kTurns ? T::kShape.multiplying_warpgroups * blocks : blocks, parity ^= 1) {
    const TilePosition tile = locate(a, number);
    const int filter = tile.filter_tile * T::kShape.filters + (kTurns ? 0 : set * kBoxedFilters);
    if (has_residual) {
      for_boxes<T>(a, block, tile, filter, set, from_residual(a, box_bytes, empty));
      ptx::mbarrier_arrive(empty);
    }
    wait(&barriers().outputs_full[set], parity);
    for_boxes<T>(a, block, tile, filter, set, to_output(a));
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{});
    if (!has_residual) ptx::mbarrier_arrive(empty);
  }
}

/// The boxes of a tile's outputs, for a warp that puts its sums there: rows of filters.
template <class T>
class OutputBoxes {
 public:
  using Element = typename T::Element;

  /// `filter`: the warp's first.
  __device__ __forceinline__ OutputBoxes(const Tile& tile, Block<T> block, int warpgroup,
                                         int filter)
      : places_(block.box_places(warpgroup)),
        box_(block.box((T::kShape.takes_turns ? warpgroup * kBoxedFilters + filter : filter) /
                       kBoxFilters<Element>)),
        first_(filter % kBoxFilters<Element> * static_cast<int>(sizeof(Element))),
        none_(place_of(tile.output_rows())) {}

  /// Of a warpgroup's columns, which are the same for all tiles: where their rows are in a box, in bytes. What is to be
  /// some bytes into a row is at its place with these bits exchanged, as swizzles exchange words of 16 bytes.
  __device__ __forceinline__ static void place_columns(const Arguments<Element>& a, Block<T> block,
                                                       int warpgroup, int thread) {
    const int first = T::kShape.divides_columns() ? warpgroup * a.tile.warpgroup_columns : 0;
    for (int column = thread; column < T::kShape.columns; column += 128) {
      const auto [line, in_line] = a.column_pitch.divide(first + column);
      const bool inside = column < a.tile.warpgroup_columns && line < a.tile.rows * a.tile.images &&
                          in_line < a.tile.columns;
      block.box_places(warpgroup)[column] = static_cast<uint16_t>(
          place_of(inside ? line * a.tile.columns + in_line : a.tile.output_rows()));
    }
  }

  /// Of a column. Lanes whose columns are neighbours have different banks.
  __device__ __forceinline__ uint32_t place(int column) const { return places_[column]; }
  __device__ __forceinline__ bool is_output(uint32_t place) const { return place < none_; }
  /// One of the warp's 16 filters in a row.
  __device__ __forceinline__ Element* at(uint32_t place, int filter) const {
    const int in_row = first_ + filter * static_cast<int>(sizeof(Element));
    return reinterpret_cast<Element*>(box_ + (place ^ static_cast<uint32_t>(in_row)));
  }

 private:
  __device__ __forceinline__ static uint32_t place_of(int row) {
    return static_cast<uint32_t>(row * kRowBytes + row % kRowUnits * kUnitBytes);
  }

  const uint16_t* places_;
  char* box_;
  int first_;      // bytes of a row before the warp's filters
  uint32_t none_;  // the place of columns that are no outputs
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

  char* boxes_;
};

}  // namespace im2win::cuda::fused
