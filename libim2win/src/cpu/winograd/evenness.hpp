// Whether Winograd's algorithm may add up some values: how far their magnitudes lie apart, beside the products that
// an output has.
//
// Pieces of the window multiply the inputs that an output sees by weights of other taps, too. What these products
// round off is to be small beside the output's own. There are two ways in which it may not be:
//
// - An output has few products of a large input and a large weight, by chance. If a part 1/u of some values is large,
//   and the others hardly count, of n products n / u^2 have two large factors. That should be some.
// - It sees inputs where its taps are small, as in the corner of a padded image. Roundings, being random, add up to
//   sqrt(n) of those of large products; the output is n small ones.
#pragma once

#include <cmath>
#include <limits>

#include "cpu/kernels.hpp"

namespace im2win::cpu {

/// The mean of the squares of `count` values over the square of their mean magnitude: 1 if all are alike, u if a part
/// 1/u of them is alike and the others are zero. Gaussian data has 1.6, after a ReLU 3.1, what is spread evenly over
/// 12 powers of two 10. Infinite where sums of products might overflow, or underflow; NaN if one is not finite.
template <class Compute>
double unevenness(const Spread<Compute>& spread, int64_t count) {
  constexpr double kLeast = 0x1p-100;
  constexpr double kMost = 0x1p100;
  const double sum = spread.sum;
  if (sum == 0) return 1;
  if (sum - sum != 0) return std::numeric_limits<double>::quiet_NaN();
  const double square = spread.squares / static_cast<double>(count);
  if (square < kLeast || square > kMost) return std::numeric_limits<double>::infinity();
  const double mean = sum / static_cast<double>(count);
  return square / (mean * mean);
}

/// Of filters: that of all weights, and with the mean magnitude of the least of the taps.
struct WeightUnevenness {
  double all = 1;
  double taps = 1;

  bool is_finite() const { return !std::isnan(all); }
};

/// What an output of a strip has at least, and the unevenness of what they all see.
struct StripInputs {
  double products;
  double unevenness;

  bool are_even_with(const WeightUnevenness& weights) const {
    constexpr double kByChance = 8;
    constexpr double kByTaps = 4;
    return products >= kByChance * unevenness * weights.all &&
           products >= kByTaps * std::sqrt(unevenness * weights.taps);
  }
};

}  // namespace im2win::cpu
