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
template <int kColumns, class Compute>
void sum_dots(const DotTile<Compute>& tile) {
  constexpr int64_t kElements = VectorOf<Compute>::kElements;
  Vector<Compute> sums[kDotRows][kColumns] = {};
  int64_t tap = 0;
  for (; tap + kElements <= tile.taps; tap += kElements) {
#pragma GCC unroll 4
    for (int i = 0; i < kDotRows; ++i) {
      const Vector<Compute> row = loaded(tile.rows[i] + tap);
      __builtin_prefetch(tile.rows[i] + tap + tile.ahead);
#pragma GCC unroll 2
      for (int j = 0; j < kColumns; ++j) sums[i][j] += row * load(tile.columns[j] + tap);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kDotRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kColumns; ++j) {
      Compute sum = add_lanes<Compute>(sums[i][j]);
      for (int64_t rest = tap; rest < tile.taps; ++rest)
        sum += tile.rows[i][rest] * tile.columns[j][rest];
      tile.sums[i * tile.row_stride + j * tile.column_stride] = sum;
    }
  }
}

}  // namespace
}  // namespace im2win::cpu
