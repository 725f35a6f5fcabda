// Which problems winograd takes, and which it should.

#include <algorithm>

#include "checked.hpp"
#include "cpu/im2win.hpp"
#include "cpu/isa.hpp"
#include "cpu/winograd.hpp"
#include "cpu/winograd/filter.hpp"
#include "cpu/winograd/strips.hpp"

namespace im2win::cpu {
namespace {

// Below these all sizes that follow fit 64 bits.
constexpr int64_t kMostWeights = int64_t{1} << 40;  // of one tap
constexpr int64_t kMostInputChannels = int64_t{1} << 30;

}  // namespace

std::string refuse_winograd(const Problem& problem) {
  const Problem& d = problem;
  if (d.math == IM2WIN_MATH_IEEE) return "does not take math ieee";
  if (d.r > kMostAxisTaps || d.s > kMostAxisTaps)
    return text("takes windows of up to ", kMostAxisTaps, " x ", kMostAxisTaps);
  if (d.stride_h > d.r || d.stride_w > d.s) return "takes no strides beyond the window";
  if (d.stride_h == d.r && d.stride_w == d.s) return "takes windows that overlap";
  if (d.dilation_h != 1 || d.dilation_w != 1) return "takes a dilation of 1";
  // A corner's four products may all be small beside what its tile adds up; those of more channels are not.
  if (d.c_per_group() == 1) return "takes 2 channels a group or more";
  if (exceeds(kMostWeights, {d.k, d.c_per_group()}) ||
      exceeds(kMostInputChannels, {d.c_per_group()}))
    return text("takes at most ", kMostInputChannels, " channels and ", kMostWeights,
                " pairs of channel and filter");
  return "";
}

bool is_winograd_worthwhile(const Problem& problem) {
  const Problem& d = problem;
  if (!refuse_winograd(d).empty()) return false;
  // That takes half of the instructions, this 4/9 at best, and transforms: it is 3 % faster, at most, as measured.
  if (multiplies_pairs(d)) return false;
  // Of fewer, some taps' weights are small by chance: filters are uneven (winograd/evenness.hpp).
  constexpr int64_t kFewestChannels = 16;
  if (d.c_per_group() < kFewestChannels) return false;
  // In products, as measured on Zen 4; vectors are filled up. Doubles, as sizes are up to 2^63.
  constexpr double kCall = 1.4e6;      // for the threads to meet once more
  constexpr double kTransform = 8;     // of a point of a tile, an entry's channel or a filter
  constexpr double kPackingTap = 22;   // of a weight; more, the less of the points stays in a cache
  constexpr double kPackingEntry = 2;  // that a weight is part of
  constexpr double kPlainPackingTap = 17;  // of a weight, by im2win
  constexpr double kCache = 5 * 1024 * 1024;
  constexpr double kVector = 16;
  // Where units are wide all else takes as long as more products.
  constexpr double kWideUnits = 1.5;
  const WinogradWindow window = winograd_window(d);
  const auto taps = static_cast<double>(window.taps());
  const auto entries = static_cast<double>(window.entries());
  const auto c = static_cast<double>(d.c_per_group());
  const double k = std::max(static_cast<double>(d.k_per_group()), kVector);
  const auto n = static_cast<double>(d.n);
  const auto groups = static_cast<double>(d.groups);
  const double pixels = n * static_cast<double>(d.p) * static_cast<double>(d.q);
  const double tiles =
      n * static_cast<double>(ceil_div(d.p, 2)) * static_cast<double>(ceil_div(d.q, 2));
  const double bytes = d.dtype == IM2WIN_FLOAT64 ? sizeof(double) : sizeof(float);
  const double points_bytes = groups * c * k * entries * bytes;
  const double packing = (kPackingTap * taps + kPackingEntry * entries) *
                         (has_few_tiles(d) ? 1 : 1 + points_bytes / kCache);
  const double saved = c * k * (pixels * taps - tiles * entries);
  const double packed = c * k * (packing - kPlainPackingTap * taps);
  const double transforms =
      tiles * kTransform * (entries * std::max(c, kVector) + kWinogradPoints * k);
  return groups * saved >
         (has_wide_units() ? kWideUnits : 1) * (groups * (packed + transforms) + kCall);
}

}  // namespace im2win::cpu
