// Depthwise sums with vectors along the channels, for kernels_template.hpp alone.
#pragma once

#include "cpu/vector.hpp"

namespace im2win::cpu {
namespace {

// Outputs whose sums are carried together: neighbours share what they read.
constexpr int kTileOutputs = 4;

// Taps whose weights are kept in registers beside the sums.
constexpr int kKeptTaps = 7;

/// The shape of a filter's row: known when compiling, or (0) from the ChannelRow. Of several channels if it has
/// groups.
template <int kColumnsOf, int kStrideOf, bool kHasGroupsOf = false>
struct Window {
  static constexpr int kColumns = kColumnsOf;
  static constexpr int kStride = kStrideOf;
  static constexpr bool kHasGroups = kHasGroupsOf;
};

/// Adds a filter row of a window known when compiling: each input column is read once. Of several channels it
/// takes these lanes.
template <class Shape, bool kBorder, int kOutputs, int kVectors, class Compute>
inline void add_fixed_row(const ChannelRow<Compute>& row, const Compute* input,
                          const Compute* filter, int64_t first_column,
                          Vector<Compute> (&sums)[kOutputs][kVectors],
                          Lanes<Compute> lanes = Lanes<Compute>()) {
  constexpr int64_t kElements = VectorOf<Compute>::kElements;
  Vector<Compute> weights[Shape::kColumns][kVectors];
#pragma GCC unroll 7
  for (int s = 0; s < Shape::kColumns; ++s, filter += row.filter_stride) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) weights[s][v] = load(filter + v * kElements);
  }
  input += first_column * row.column_stride;
#pragma GCC unroll 16
  for (int column = 0; column < (kOutputs - 1) * Shape::kStride + Shape::kColumns;
       ++column, input += row.column_stride) {
    const int64_t x = first_column + column;
    if (kBorder && (x < 0 || x >= row.columns)) continue;
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      Vector<Compute> value = loaded(input + v * kElements);
      if constexpr (Shape::kHasGroups) value = pick_lanes<Compute>(value, lanes);
#pragma GCC unroll 4
      for (int i = 0; i < kOutputs; ++i) {
        const int s = column - i * Shape::kStride;
        if (s >= 0 && s < Shape::kColumns) sums[i][v] += value * weights[s][v];
      }
    }
  }
}

/// Adds taps [s, end) of a filter's row without a stride: kTaps at a time, the rest by fewer.
template <int kTaps, bool kBorder, int kOutputs, int kVectors, class Compute>
inline void add_taps(const ChannelRow<Compute>& row, const Compute* input, const Compute* filter,
                     int64_t first_column, int64_t s, int64_t end,
                     Vector<Compute> (&sums)[kOutputs][kVectors]) {
  for (; s + kTaps <= end; s += kTaps)
    add_fixed_row<Window<kTaps, 1>, kBorder>(row, input, filter + s * row.filter_stride,
                                             first_column + s, sums);
  if constexpr (kTaps > 1)
    add_taps<kTaps / 2, kBorder>(row, input, filter, first_column, s, end, sums);
}

/// Adds a filter row of any width, without a stride, but for taps that no output has inside the image.
template <bool kBorder, int kOutputs, int kVectors, class Compute>
inline void add_dense_row(const ChannelRow<Compute>& row, const Compute* input,
                          const Compute* filter, int64_t first_column,
                          Vector<Compute> (&sums)[kOutputs][kVectors]) {
  int64_t begin = 0, end = row.filter_columns;
  if constexpr (kBorder) {
    const int64_t last_column = first_column + kOutputs - 1;
    if (last_column < 0) begin = -last_column;
    if (end > row.columns - first_column) end = row.columns - first_column;
  }
  add_taps<kKeptTaps, kBorder>(row, input, filter, first_column, begin, end, sums);
}

/// Adds a filter row of any window.
template <bool kBorder, int kOutputs, int kVectors, class Compute>
inline void add_any_row(const ChannelRow<Compute>& row, const Compute* input, const Compute* filter,
                        int64_t first_column, Vector<Compute> (&sums)[kOutputs][kVectors]) {
  constexpr int64_t kElements = VectorOf<Compute>::kElements;
  for (int64_t s = 0; s < row.filter_columns; ++s) {
#pragma GCC unroll 4
    for (int i = 0; i < kOutputs; ++i) {
      const int64_t x = first_column + i * row.stride + s * row.dilation;
      if (kBorder && (x < 0 || x >= row.columns)) continue;
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v)
        sums[i][v] += load(input + x * row.column_stride + v * kElements) *
                      load(filter + s * row.filter_stride + v * kElements);
    }
  }
}

/// Asks for what the tile below this one adds to the input. Inlined, as GCC takes the call of a
/// function that only prefetches for one without an effect.
template <class Shape, int kOutputs, int kVectors, class Compute>
__attribute__((always_inline)) inline void prefetch_tile(const ChannelRow<Compute>& row, int64_t q,
                                                         int64_t c) {
  constexpr int64_t kElements = VectorOf<Compute>::kElements;
  constexpr int64_t kStride = Shape::kStride > 0 ? Shape::kStride : 1;
  for (int64_t r = 0; r < row.next_rows; ++r) {
    const Compute* next = row.next + r * row.next_stride + c;
    for (int64_t i = 0; i < kOutputs * kStride; ++i) {
      const int64_t x = q * row.stride + i;
      if (x >= row.columns) break;
      for (int v = 0; v < kVectors; ++v)
        __builtin_prefetch(next + x * row.column_stride + v * kElements);
    }
  }
}

/// Outputs [q, q + kOutputs) of channels [c, c + kVectors vectors).
template <class Shape, bool kBorder, int kOutputs, int kVectors, class Compute>
inline void sum_tile(const ChannelRow<Compute>& row, int64_t q, int64_t c) {
  constexpr int64_t kElements = VectorOf<Compute>::kElements;
  const int64_t first_column = q * row.stride - row.padding;
  Vector<Compute> sums[kOutputs][kVectors] = {};
  for (int64_t r = 0; r < row.filter_rows; ++r) {
    const Compute* input = row.input + r * row.row_stride + c;
    const Compute* filter = row.filter + r * row.filter_columns * row.filter_stride + c;
    if constexpr (Shape::kHasGroups) {
      Lanes<Compute> lanes = first_lanes<Compute>(row.group);
      for (int64_t channel = 0; channel < row.group; ++channel, lanes += 1)
        add_fixed_row<Shape, kBorder>(row, input, filter + channel * row.filter_plane, first_column,
                                      sums, lanes);
    } else if constexpr (Shape::kColumns > 0) {
      add_fixed_row<Shape, kBorder>(row, input, filter, first_column, sums);
    } else if constexpr (Shape::kStride == 1) {
      add_dense_row<kBorder>(row, input, filter, first_column, sums);
    } else {
      add_any_row<kBorder>(row, input, filter, first_column, sums);
    }
  }
  if (row.next_rows > 0) prefetch_tile<Shape, kOutputs, kVectors>(row, q, c);
  const Range<Compute> range = row.range;
  const int64_t output_stride = row.output_stride;
  Compute* output = row.output + q * output_stride + c;
  Vector<Compute> bias[kVectors];
  for (int v = 0; v < kVectors; ++v) bias[v] = load(row.bias + c + v * kElements);
  const bool streams = row.streams && is_aligned(output) && is_aligned(output + output_stride);
#pragma GCC unroll 4
  for (int i = 0; i < kOutputs; ++i, output += output_stride) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      streams ? stream(output + v * kElements, finish(sums[i][v], bias[v], range))
              : store(output + v * kElements, finish(sums[i][v], bias[v], range));
  }
}

/// Outputs [q, q + kOutputs) of all channels. The last vector may overlap the one before.
template <class Shape, bool kBorder, int kOutputs, class Compute>
void sum_tiles(const ChannelRow<Compute>& row, int64_t q) {
  constexpr int64_t kElements = VectorOf<Compute>::kElements;
  const int64_t end = row.channels;
  int64_t c = 0;
  for (; c + 2 * kElements <= end; c += 2 * kElements)
    sum_tile<Shape, kBorder, kOutputs, 2>(row, q, c);
  for (; c < end; c += kElements)
    sum_tile<Shape, kBorder, kOutputs, 1>(row, q, c + kElements <= end ? c : end - kElements);
}

/// All outputs. The last tile may overlap the one before.
template <class Shape, class Compute>
void sum_outputs(const ChannelRow<Compute>& row) {
  if (row.outputs < kTileOutputs) {
    for (int64_t q = 0; q < row.outputs; ++q) sum_tiles<Shape, true, 1>(row, q);
    return;
  }
  const int64_t reach = (kTileOutputs - 1) * row.stride + (row.filter_columns - 1) * row.dilation;
  const int64_t last = row.outputs - kTileOutputs;
  for (int64_t start = 0; start < row.outputs; start += kTileOutputs) {
    const int64_t q = start < last ? start : last;
    const int64_t first_column = q * row.stride - row.padding;
    if (first_column >= 0 && first_column + reach < row.columns) {
      sum_tiles<Shape, false, kTileOutputs>(row, q);
    } else {
      sum_tiles<Shape, true, kTileOutputs>(row, q);
    }
  }
}

/// All outputs of a row without a stride or a dilation.
template <class Compute>
void sum_dense_outputs(const ChannelRow<Compute>& row) {
  if (row.filter_columns == 3) return sum_outputs<Window<3, 1>>(row);
  if (row.filter_columns == 5) return sum_outputs<Window<5, 1>>(row);
  sum_outputs<Window<0, 1>>(row);
}

/// All outputs of a row without a stride. Every dilation-th output meets every dilation-th column: such combs
/// are dense rows.
template <class Compute>
void sum_combs(const ChannelRow<Compute>& row) {
  const int64_t dilation = row.dilation;
  for (int64_t first = 0; first < dilation && first < row.outputs; ++first) {
    const int64_t column = (first - row.padding) % dilation;  // of the comb in the input, or before
    const int64_t base = column < 0 ? column + dilation : column;
    ChannelRow<Compute> comb = row;
    if (row.filter_rows > 0) comb.input += base * row.column_stride;
    if (row.next_rows > 0) comb.next += base * row.column_stride;
    comb.column_stride *= dilation;
    comb.columns = (row.columns - base + dilation - 1) / dilation;
    comb.padding = (row.padding - first + base) / dilation;
    comb.dilation = 1;
    comb.output += first * row.output_stride;
    comb.output_stride *= dilation;
    comb.outputs = (row.outputs - first + dilation - 1) / dilation;
    sum_dense_outputs(comb);
  }
}

template <class Compute>
void sum_channels(const ChannelRow<Compute>& row) {
  if (row.stride == 1 && row.dilation == 1) return sum_dense_outputs(row);
  if (row.stride == 1 && row.dilation < row.columns) return sum_combs(row);
  if (row.dilation == 1 && row.stride == 2) {
    if (row.filter_columns == 3) return sum_outputs<Window<3, 2>>(row);
    if (row.filter_columns == 5) return sum_outputs<Window<5, 2>>(row);
  }
  sum_outputs<Window<0, 0>>(row);
}

/// Of windows three columns wide, without a dilation, with a stride of one or two.
template <class Compute>
void sum_groups(const ChannelRow<Compute>& row) {
  row.stride == 1 ? sum_outputs<Window<3, 1, true>>(row) : sum_outputs<Window<3, 2, true>>(row);
}

}  // namespace
}  // namespace im2win::cpu
