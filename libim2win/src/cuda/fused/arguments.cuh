// What a launch of im2win_fused is given, and where a block's tiles are.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/divisor.hpp"
#include "cuda/epilogue.cuh"
#include "cuda/fused/shared.hpp"
#include "cuda/fused/tile.hpp"
#include "cuda/ptx.cuh"
#include "cuda/tensor_map.hpp"
#include "problem.hpp"

extern __shared__ __align__(1024) char dynamic_shared_memory[];

namespace im2win::cuda::fused {

/// The packed filter: [group][tile of filters][step][part][2 units][filter][16 bytes], the steps of
/// all slabs in turn; then, of split operands, a scale for each filter and slab,
/// [group][tile of filters][slab][filter]; then, unless that is at hand, the filter itself, for sums that are formed
/// again: dense, in the order of memory or, where that has gaps, KCRS.
/// Or the filter as it is, if it comes as boxes.
struct PackedFilter {
  int64_t tile_bytes;     // of a filter tile's steps
  int64_t scales, exact;  // where they start
  int64_t exact_stride[4];
  int64_t bytes;
};

/// The filter as it is.
template <class Element>
struct ExactFilter {
  const Element* data = nullptr;
  int64_t stride[4] = {};
};

/// Counted from those of a slab's group.
struct alignas(4) FilterTap {
  int16_t row, column;
};

/// Of a slab whose filters come as boxes.
constexpr int kMaxBoxedTaps = kMaxSteps / kMaxBatch;

template <class Element>
struct Arguments {
  const Element* input = nullptr;
  const char* filters = nullptr;  // packed
  Outputs<Element, float> outputs;
  Tile tile;
  SharedLayout shared;
  PackedFilter packed;

  // Tiles, in the order of their numbers: filters fastest, so that blocks which run together share
  // windows; then columns, rows (or runs), images, groups.
  int32_t tiles;
  Divisor filter_tiles, column_tiles, row_tiles, image_tiles;

  // Windows.
  Divisor pitch, plane_positions, tile_images, column_pitch, positions;
  int64_t n, channels, filters_per_group;  // of a group
  int32_t own_channels, own_filters;       // of a filter's group: see has_merged_groups
  int64_t filters_total;
  int32_t h, w, p, q;
  int32_t stride_h, stride_w, dilation_h, dilation_w, padding_top, padding_left;
  int64_t stride_n, stride_c;
  int32_t row_stride, column_stride;  // of the input
  int32_t r, s;
  // Boxes: of the input's phases, in rows, then columns, or of lines, in rows; and of the output.
  CUtensorMap inputs[kMaxPhases], output, residual, filter;
  Divisor column_groups, phase_rows, phase_columns;
  int32_t phase_rows_above, phase_columns_left;  // of the padding, and more to whole phases
  bool boxed, stored, filters_boxed;
  // Whether windows and filters are used and handed back together, as both are boxes and each slab is of one batch: they
  // have as many stages, and those of windows have the barriers.
  bool pairs;
  FilterTap filter_taps[2][kMaxBoxedTaps];  // of the batches of both kinds of slabs
  // Raw lines.
  Divisor raw_rows;    // of a channel and image
  Divisor raw_words;   // of a line
  int32_t raw_lines;   // of a slab
  int32_t raw_column;  // elements from a pixel to the next
  // From a phase's lines to the next's, and from those of a row of an image, in elements.
  int32_t raw_phase, raw_line;
  int32_t raw_channel,
      raw_shift;  // from a channel to the next: elements, if of a phase; and how far past 16 bytes
  int32_t unit_bytes;  // from a unit of a slab of lines to the next
  int32_t reach;       // input columns that a position's plane and unit reach to the right
  int64_t input_begin, input_end;  // bytes, from element [0, 0, 0, 0], of the whole input
  // Of units, or rows of pixels, that are in the input as they are and are no boxes or lines, at a time; or 0.
  int32_t copied_bytes;
  // Whether a unit's channels are neighbours in the input, 16-byte aligned; or pixels that are apart are in words.
  bool vectors;
  bool rechecks;        // whether products may meet elements outside a window
  int32_t row_word;     // neighbouring pixels of a filter that are written at once
  int32_t filter_word;  // or neighbouring filters of a pixel; 0: there are none
  bool words;           // whether these are words of 16 bytes
  bool whole_planes;    // or the planes of eight are: see Tile
  // Whether the kernel before packs the filter, and all before that has ended.
  bool follows_packing = false;
  ExactFilter<Element> exact;

  Arguments(const Problem& problem, const TileChoice& choice, const KernelShape& shape,
            Operands operands);

  /// For an output that is no words of 16 bytes.
  void write_elements() {
    words = whole_planes = stored = false;
    row_word = 1;
    filter_word = std::min(filter_word, 1);
  }

  /// For a filter that is no words of 16 bytes.
  void refuse_filter_boxes() { filters_boxed = pairs = false; }

  /// For an input that is no words of 16 bytes.
  void refuse_words() {
    vectors = boxed = stored = pairs = false;
    copied_bytes = 0;
    if (!tile.raw.boxed || tile.from_lines) return;
    tile.raw = {};
    tile.held = 0;
    shared.places = shared.raw;
  }
};

/// By who reads them, unless the kernel before is the one that packs the filter.
template <class Element>
__device__ __forceinline__ void wait_for_inputs(const Arguments<Element>& a) {
  if (!a.follows_packing) ptx::wait_for_kernel_before();
}

struct Tap {
  int row, column;
};

/// From which the taps of a group are counted.
template <class Element>
__device__ __forceinline__ Tap first_tap(const Arguments<Element>& a, int tap_group) {
  const auto [row, column] = a.column_groups.divide(tap_group);
  return {row, column};
}

/// Rows congruent modulo the stride: which of those a tap row's inputs are, and how many of them lie
/// between an output's row and its input.
struct PhaseRow {
  int phase, down;
};

template <class Element>
__device__ __forceinline__ PhaseRow phase_of_row(const Arguments<Element>& a, int tap_row) {
  const auto [steps, phase] =
      a.phase_rows.divide(tap_row * a.dilation_h - a.padding_top + a.phase_rows_above * a.stride_h);
  return {phase, steps - a.phase_rows_above};
}

struct TilePosition {
  int32_t group, filter_tile;
  int64_t n;      // first image
  int32_t p, q;   // first row and column of the output
  int32_t begin;  // positions of the first row that come before the tile's: those before a run
};

template <class Element>
__device__ __forceinline__ TilePosition locate(const Arguments<Element>& a, int32_t number) {
  const auto [pixel_tile, filter_tile] = a.filter_tiles.divide(number);
  const auto [rows, column] = a.column_tiles.divide(pixel_tile);
  const auto [images, row] = a.row_tiles.divide(rows);
  const auto [group, image] = a.image_tiles.divide(images);
  TilePosition tile = {group,
                       filter_tile,
                       int64_t{image} * a.tile.images,
                       row * a.tile.rows,
                       column * a.tile.columns,
                       0};
  if (a.tile.run > 0) {
    const auto [p, begin] = a.pitch.divide(row * a.tile.run);
    tile.p = p;
    tile.begin = begin;
  }
  return tile;
}

/// The kind of a tap group: its index in Tile::steps.
__device__ __forceinline__ int kind_of(const Tile& tile, int tap_group) {
  return tap_group < tile.full_groups ? 0 : 1;
}

}  // namespace im2win::cuda::fused
