// Sums of windows over the taps that lie inside the image alone.
#pragma once

#include <algorithm>

#include "cpu/filter_tiles.hpp"
#include "cpu/kernels.hpp"
#include "cpu/taps.hpp"
#include "cpu/window_panel.hpp"

namespace im2win::cpu {

/// The finished sums of one output (n, p, q) and the tile's filters, otherwise as the kernels take
/// them. `offsets` are those of all taps, `filters` and `bias` those of the tile.
template <class Compute>
void sum_inside(const Problem& problem, int64_t p, int64_t q, const Compute* window,
                const int64_t* offsets, const FilterTile& tile, const Compute* filters,
                const Compute* bias, const Range<Compute>& range, Compute* sums) {
  const Problem& d = problem;
  const TapRange rows = taps_inside(d.h, d.r, d.dilation_h, p * d.stride_h - d.padding_top);
  const TapRange columns = taps_inside(d.w, d.s, d.dilation_w, q * d.stride_w - d.padding_left);
  const int64_t inner = reads_channels_last(d) ? d.c_per_group() : 1;
  std::fill_n(sums, tile.width, Compute(0));
  for (int64_t tap = 0; tap < d.window_elements(); ++tap, filters += tile.width) {
    const int64_t column = tap / inner % d.s;
    const int64_t row = tap / inner / d.s % d.r;
    if (row < rows.begin || row >= rows.end || column < columns.begin || column >= columns.end)
      continue;
    const Compute x = window[offsets[tap]];
    for (int64_t k = 0; k < tile.width; ++k) sums[k] += x * filters[k];
  }
  for (int64_t k = 0; k < tile.width; ++k) {
    const Compute x = sums[k] + bias[k];
    sums[k] = x < range.low ? range.low : x > range.high ? range.high : x;
  }
}

}  // namespace im2win::cpu
