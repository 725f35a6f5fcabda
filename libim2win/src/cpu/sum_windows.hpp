// Sums of windows with vectors along the filters, for kernels_template.hpp alone.
#pragma once

#include "cpu/vector.hpp"

namespace im2win::cpu {
namespace {

// Of filters: as many as leave registers for their factors.
constexpr int kTileVectors = IM2WIN_VECTOR_BYTES == 64 ? 4 : 2;

/// Where a tile's sums go: on its way to the cache while its taps are summed.
template <int kVectors, int kPixels, class Factor>
inline void prefetch_sums(const WindowTile<Factor>& tile) {
  using Compute = typename ComputeOf<Factor>::Type;
  for (int pixel = 0; pixel < kPixels; ++pixel)
    for (int v = 0; v < kVectors; ++v)
      __builtin_prefetch(tile.sums[pixel] + v * VectorOf<Compute>::kElements, 1);
}

/// How a tap multiplies: `spread` makes vectors of what a pixel has there, `add` adds its products.
template <class Compute>
struct Multiply {
  using Factor = Compute;
  static Vector<Compute> spread(const Compute* input) { return broadcast(*input); }
  static Vector<Compute> add(Vector<Compute> sum, Vector<Compute> input, const Compute* filters) {
    return sum + input * load(filters);
  }
};

/// A call's taps are one chain of sums in their order, which is added to those of the calls before: some
/// short chains err less than a long one. All loops over the tile are unrolled: its sums would else lie
/// in memory.
template <int kVectors, int kPixels, class Product>
void sum_windows(const WindowTile<typename Product::Factor>& tile) {
  using Factor = typename Product::Factor;
  using Compute = typename ComputeOf<Factor>::Type;
  constexpr int64_t kElements = VectorOf<Compute>::kElements;
  constexpr int64_t kFactors = kElements * kTapFactors<Factor>;  // of a vector of filters
  if (tile.are_far) prefetch_sums<kVectors, kPixels>(tile);
  const Factor* windows[kPixels];
  Vector<Compute> sums[kPixels][kVectors] = {};
#pragma GCC unroll 6
  for (int pixel = 0; pixel < kPixels; ++pixel) windows[pixel] = tile.windows[pixel];
  const Factor* filters = tile.filters;
  const Factor* next = tile.next;
  const int64_t next_step = tile.next_step;
  for (int64_t tap = 0; tap < tile.taps; ++tap, filters += kVectors * kFactors) {
    const int64_t offset = tile.offsets[tap];
    __builtin_prefetch(next + offset * next_step);
#pragma GCC unroll 6
    for (int pixel = 0; pixel < kPixels; ++pixel) {
      const auto input = Product::spread(windows[pixel] + offset);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        sums[pixel][v] = Product::add(sums[pixel][v], input, filters + v * kFactors);
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

template <class Product, int kVectors = 1>
constexpr void add_window_sums(WindowSums<typename Product::Factor>& sums) {
  auto& by_pixels = sums.kernels[kVectors - 1];
  by_pixels[0] = sum_windows<kVectors, kPixelStep, Product>;
  by_pixels[1] = sum_windows<kVectors, 2 * kPixelStep, Product>;
  by_pixels[2] = sum_windows<kVectors, 3 * kPixelStep, Product>;
  if constexpr (kVectors < kTileVectors) add_window_sums<Product, kVectors + 1>(sums);
}

template <class Product>
constexpr WindowSums<typename Product::Factor> window_sums() {
  WindowSums<typename Product::Factor> sums = {};
  add_window_sums<Product>(sums);
  return sums;
}

}  // namespace
}  // namespace im2win::cpu
