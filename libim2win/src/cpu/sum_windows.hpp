// Sums of windows with vectors along the filters, for kernels_template.hpp alone.
#pragma once

#include "cpu/vector.hpp"

namespace im2win::cpu {
namespace {

// Of filters: as many as leave registers for their factors.
constexpr int kTileVectors = IM2WIN_VECTOR_BYTES == 64 ? 4 : 2;

/// Where a tile's sums go: on its way to the cache while its taps are summed.
template <int kVectors, int kPixels, class Compute>
inline void prefetch_sums(const WindowTile<Compute>& tile) {
  for (int pixel = 0; pixel < kPixels; ++pixel)
    for (int v = 0; v < kVectors; ++v)
      __builtin_prefetch(tile.sums[pixel] + v * VectorOf<Compute>::kElements, 1);
}

/// A call's taps are one chain of sums in their order, which is added to those of the calls before: some
/// short chains err less than a long one. All loops over the tile are unrolled: its sums would else lie
/// in memory.
template <int kVectors, int kPixels, class Compute>
void sum_windows(const WindowTile<Compute>& tile) {
  constexpr int64_t kElements = VectorOf<Compute>::kElements;
  if (tile.are_far) prefetch_sums<kVectors, kPixels>(tile);
  const Compute* windows[kPixels];
  Vector<Compute> sums[kPixels][kVectors] = {};
#pragma GCC unroll 6
  for (int pixel = 0; pixel < kPixels; ++pixel) windows[pixel] = tile.windows[pixel];
  const Compute* filters = tile.filters;
  const Compute* next = tile.next;
  const int64_t next_step = tile.next_step;
  for (int64_t tap = 0; tap < tile.taps; ++tap, filters += kVectors * kElements) {
    const int64_t offset = tile.offsets[tap];
    __builtin_prefetch(next + offset * next_step);
#pragma GCC unroll 6
    for (int pixel = 0; pixel < kPixels; ++pixel) {
      const Vector<Compute> input = broadcast(windows[pixel][offset]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[pixel][v] += input * load(filters + v * kElements);
    }
  }
  if (!tile.is_first) {
#pragma GCC unroll 6
    for (int pixel = 0; pixel < kPixels; ++pixel) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[pixel][v] += load(tile.sums[pixel] + v * kElements);
    }
  }
  if (tile.is_last) {
    const Range<Compute> range = tile.range;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const Vector<Compute> bias = load(tile.bias + v * kElements);
#pragma GCC unroll 6
      for (int pixel = 0; pixel < kPixels; ++pixel)
        sums[pixel][v] = finish(sums[pixel][v], bias, range);
    }
  }
  bool streams = tile.streams;
  for (int pixel = 0; pixel < kPixels; ++pixel) streams = streams && is_aligned(tile.sums[pixel]);
#pragma GCC unroll 6
  for (int pixel = 0; pixel < kPixels; ++pixel) {
    Compute* target = tile.sums[pixel];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      streams ? stream(target + v * kElements, sums[pixel][v])
              : store(target + v * kElements, sums[pixel][v]);
  }
}

}  // namespace
}  // namespace im2win::cpu
