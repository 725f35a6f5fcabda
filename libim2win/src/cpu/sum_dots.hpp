// Dot products of filters and windows, with vectors along the taps, for kernels_template.hpp alone.
#pragma once

#include "cpu/vector.hpp"

namespace im2win::cpu {
namespace {

/// The sum of all lanes, by halves.
template <class Compute>
inline Compute add_lanes(Vector<Compute> value) {
  Compute lanes[VectorOf<Compute>::kElements];
  store(lanes, value);
#pragma GCC unroll 4
  for (int64_t half = VectorOf<Compute>::kElements / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

/// The same sums whatever else the tile has.
template <int kPixels, class Compute>
void sum_dots(const DotTile<Compute>& tile) {
  constexpr int64_t kElements = VectorOf<Compute>::kElements;
  Vector<Compute> sums[kPixels][kDotFilters] = {};
  int64_t tap = 0;
  for (; tap + kElements <= tile.taps; tap += kElements) {
#pragma GCC unroll 4
    for (int k = 0; k < kDotFilters; ++k) {
      const Vector<Compute> weights = loaded(tile.filters[k] + tap);
      __builtin_prefetch(tile.filters[k] + tap + tile.ahead);
#pragma GCC unroll 2
      for (int pixel = 0; pixel < kPixels; ++pixel)
        sums[pixel][k] += weights * load(tile.windows[pixel] + tap);
    }
  }
#pragma GCC unroll 2
  for (int pixel = 0; pixel < kPixels; ++pixel) {
#pragma GCC unroll 4
    for (int k = 0; k < kDotFilters; ++k) {
      Compute sum = add_lanes<Compute>(sums[pixel][k]);
      for (int64_t i = tap; i < tile.taps; ++i) sum += tile.filters[k][i] * tile.windows[pixel][i];
      tile.sums[pixel * tile.sums_stride + k] = sum;
    }
  }
}

}  // namespace
}  // namespace im2win::cpu
