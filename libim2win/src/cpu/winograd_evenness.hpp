// Whether Winograd's algorithm may add some values: whether their magnitudes are of a kind, "even".
#pragma once

#include "cpu/kernels.hpp"

namespace im2win::cpu {

// The largest magnitude over the mean. Gaussian data has 5, after a ReLU 11; what is spread evenly over 12 powers
// of two, at which products of the least are far below what a tile adds up, about 25. Inputs may have more than
// weights: many are zero, and strips are large samples.
constexpr int kMostUnevenInputs = 20;
constexpr int kMostUnevenWeights = 12;
// Of an output, of inputs in the image: few may all be small beside what its tile adds up.
constexpr int64_t kFewestProducts = 32;

/// Of `count` values. False if one is not finite.
template <class Compute>
bool is_even(const Spread<Compute>& spread, int64_t count, int most_uneven) {
  // Products of two, and sums of very many of these, are far from overflow and underflow.
  constexpr Compute kLeast = 0x1p-50F;
  constexpr Compute kMost = 0x1p50F;
  if (spread.sum == 0) return true;
  return spread.largest * static_cast<Compute>(count) <=
             static_cast<Compute>(most_uneven) * spread.sum &&
         kLeast <= spread.largest && spread.largest <= kMost;
}

}  // namespace im2win::cpu
