// Sums of windows with vectors along the outputs of a plane, for kernels_template.hpp alone.
#pragma once

#include "cpu/vector.hpp"

namespace im2win::cpu {
namespace {

/// One chain of sums in the order of the taps. All loops over the tile are unrolled: its sums would else lie
/// in memory.
template <int kVectors, int kFilters, class Compute>
void sum_planes(const PlanesTile<Compute>& tile) {
  constexpr int64_t kElements = VectorOf<Compute>::kElements;
  // Of the fewest filters there is no other group to ask for the next lines.
  constexpr int kLines = kFilters == kFilterStep ? kVectors : 1;
  const Compute* filters[kFilters];
  Compute* outputs[kFilters];
  Vector<Compute> sums[kFilters][kVectors] = {};
#pragma GCC unroll 6
  for (int k = 0; k < kFilters; ++k) {
    filters[k] = tile.filters + k * tile.filter_stride;
    outputs[k] = tile.output + k * tile.output_stride;
    for (int v = 0; v < kVectors; ++v) __builtin_prefetch(outputs[k] + v * kElements, 1);
  }
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const int64_t offset = tile.offsets[tap];
    for (int line = 0; line < kLines; ++line)
      __builtin_prefetch(tile.next + offset + line * kElements);
    Vector<Compute> input[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) input[v] = loaded(tile.input + offset + v * kElements);
#pragma GCC unroll 6
    for (int k = 0; k < kFilters; ++k) {
      const Vector<Compute> weight = broadcast(filters[k][tap]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[k][v] += input[v] * weight;
    }
  }
  const Range<Compute> range = tile.range;
#pragma GCC unroll 6
  for (int k = 0; k < kFilters; ++k) {
    const Vector<Compute> bias = broadcast(tile.bias[k]);
    const bool streams = tile.streams && is_aligned(outputs[k]);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const Vector<Compute> sum = finish(sums[k][v], bias, range);
      streams ? stream(outputs[k] + v * kElements, sum) : store(outputs[k] + v * kElements, sum);
    }
  }
}

}  // namespace
}  // namespace im2win::cpu
