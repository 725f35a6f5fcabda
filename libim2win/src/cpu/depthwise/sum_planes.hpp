// Depthwise sums with vectors along a plane, for kernels_template.hpp alone.
#pragma once

#include "cpu/vector.hpp"

namespace im2win::cpu {
namespace {

template <int kVectors, class Compute>
inline void sum_plane_vectors(const PlaneSum<Compute>& sum, int64_t start) {
  constexpr int64_t kElements = VectorOf<Compute>::kElements;
  const Compute* input = sum.input + start;
  Vector<Compute> sums[kVectors] = {};
  for (int64_t tap = 0; tap < sum.taps; ++tap) {
    const Vector<Compute> weight = broadcast(sum.weights[tap]);
    const Compute* source = input + sum.offsets[tap];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[v] += load(source + v * kElements) * weight;
  }
  const Vector<Compute> bias = broadcast(sum.bias);
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v)
    store(sum.output + start + v * kElements, finish(sums[v], bias, sum.range));
}

template <class Compute>
void sum_plane(const PlaneSum<Compute>& sum) {
  constexpr int64_t kElements = VectorOf<Compute>::kElements;
  int64_t start = 0;
  for (; start + 8 * kElements <= sum.count; start += 8 * kElements)
    sum_plane_vectors<8>(sum, start);
  for (; start + 4 * kElements <= sum.count; start += 4 * kElements)
    sum_plane_vectors<4>(sum, start);
  for (; start < sum.count; start += kElements) sum_plane_vectors<1>(sum, start);
}

}  // namespace
}  // namespace im2win::cpu
