// Whether all of some numbers are finite, for kernels_template.hpp alone.
#pragma once

#include "cpu/vector.hpp"

namespace im2win::cpu {
namespace {

/// `count` is a whole number of vectors.
template <class Compute>
bool are_finite(const Compute* values, int64_t count) {
  constexpr int64_t kElements = VectorOf<Compute>::kElements;
  constexpr int64_t kChains = 4;  // of sums of zeros, or of a NaN
  Vector<Compute> sums[kChains] = {};
  int64_t i = 0;
  for (; i + kChains * kElements <= count; i += kChains * kElements)
    for (int64_t chain = 0; chain < kChains; ++chain)
      sums[chain] += load(values + i + chain * kElements) * Compute(0);
  for (; i < count; i += kElements) sums[0] += load(values + i) * Compute(0);
  const Vector<Compute> sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  Compute total = 0;
  for (int64_t lane = 0; lane < kElements; ++lane) total += sum[lane];
  return total == 0;
}

}  // namespace
}  // namespace im2win::cpu
