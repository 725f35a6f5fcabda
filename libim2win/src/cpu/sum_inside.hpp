// Sums of windows over the taps that lie inside the image alone.
#pragma once

#include <algorithm>

#include "cpu/kernels.hpp"
#include "cpu/taps.hpp"
#include "cpu/window_panel.hpp"

namespace im2win::cpu {

/// Taps of a window in the order row, column, but for `neighbours` of channels, which follow each other, from
/// tap `first` on.
struct TapOrder {
  int64_t first;
  int64_t neighbours;
};

/// What a kernel does with one pixel of a register tile of `width` filters, output (p, q) of an image.
template <class Factor>
void sum_inside(const Problem& problem, int64_t p, int64_t q, const WindowTile<Factor>& tile,
                int64_t pixel, const TapOrder& order, int64_t width) {
  using Compute = typename ComputeOf<Factor>::Type;
  constexpr int64_t kFactors = kTapFactors<Factor>;
  const Problem& d = problem;
  const TapRange rows = taps_inside(d.h, d.r, d.dilation_h, p * d.stride_h - d.padding_top);
  const TapRange columns = taps_inside(d.w, d.s, d.dilation_w, q * d.stride_w - d.padding_left);
  const Factor* filters = tile.filters;
  Compute* sums = tile.sums[pixel];
  if (tile.is_first) std::fill_n(sums, width, Compute(0));
  for (int64_t i = 0; i < tile.taps; ++i, filters += width * kFactors) {
    const int64_t tap = (order.first + i) / order.neighbours;
    const int64_t column = tap % d.s;
    const int64_t row = tap / d.s % d.r;
    if (row < rows.begin || row >= rows.end || column < columns.begin || column >= columns.end)
      continue;
    for (int64_t factor = 0; factor < kFactors; ++factor) {
      const auto x = static_cast<Compute>(tile.windows[pixel][tile.offsets[i] + factor]);
      for (int64_t k = 0; k < width; ++k)
        sums[k] += x * static_cast<Compute>(filters[k * kFactors + factor]);
    }
  }
  for (int64_t k = 0; tile.is_last && k < width; ++k)
    sums[k] = tile.range.bounded(sums[k] + tile.bias[k]);
}

}  // namespace im2win::cpu
