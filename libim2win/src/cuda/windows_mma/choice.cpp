#include "cuda/windows_mma/choice.hpp"

#include <algorithm>
#include <cmath>

#include "checked.hpp"
#include "cuda/fma_strips/choice.hpp"
#include "cuda/fma_windows/choice.hpp"
#include "cuda/fma_windows/tile.hpp"
#include "cuda/fused/forms.hpp"
#include "cuda/fused/stem/tile.hpp"
#include "cuda/grouped/tile.hpp"
#include "cuda/implicit_gemm/choice.hpp"
#include "cuda/windows_mma/tile.hpp"

namespace im2win::cuda::windows_mma {
namespace {

/// Of im2win_stem, with channels last, which is made for three of them: a pixel for 64 filters, and for others behind these.
/// (As most of 45 times of 5 to 260 us on an H200 are, but of windows of more than 4 x 4 taps, which take longer.)
double stem_microseconds(const Problem& problem) {
  constexpr double kStart = 5, kDense = 4.6e-5, kPixel = 6e-5, kPixelOfFour = 1.2e-4;
  constexpr int64_t kDenseTaps = 9, kSetFilters = 64;
  const auto sets = double(ceil_div(problem.k, kSetFilters));
  const double pixel = problem.c > 3                         ? kPixelOfFour * (0.45 + 0.55 * sets)
                       : problem.r * problem.s == kDenseTaps ? kDense * sets
                                                             : kPixel * sets;
  return kStart + pixel * double(problem.output_pixels());
}

/// Of im2win_fused: a pixel's units are made for each 64 filters, of which a tile multiplies mostly zeros. They take longer
/// where they are no boxes of whole words, by their channels or steps, as threads copy them then. (Beside 280 times of 4 to 260
/// us on an H200 half of these are within 15 %, and the standard deviation is 25.)
double fused_microseconds_of(const Problem& form) {
  struct Costs {
    double start, pixel, unit;
  };
  constexpr int64_t kWord = 8, kSetFilters = 64;
  constexpr double kSets = 1.2;
  constexpr Costs kBoxes = {6, 4.2e-5, 3.7e-7}, kBoxesOfSteps = {6, 4.2e-5, 1.4e-6},
                  kSteps = {10.8, 6.5e-5, 5e-6}, kHalves = {10.8, 6.5e-5, 2e-6},
                  kQuarters = {10.8, 6.5e-5, 2.6e-6}, kElements = {10.8, 6.5e-5, 5.8e-6};
  const int word = window_word(form.input, 0, kWord);
  const Costs& costs = word == kWord ? (form.stride_w == 1   ? kBoxes
                                        : form.stride_w == 2 ? kBoxesOfSteps
                                                             : kSteps)
                       : word == 4   ? kHalves
                       : word == 2   ? kQuarters
                                     : kElements;
  const auto units = double(form.r * form.s * ceil_div(form.c, kWord));
  const double sets = std::pow(double(ceil_div(form.k, kSetFilters)), kSets);
  return costs.start + (costs.pixel * sets + costs.unit * units) * double(form.output_pixels());
}

double fused_microseconds(const Problem& problem) {
  return std::min(fused_microseconds_of(problem),
                  fused_microseconds_of(fused::with_columns_as_channels(problem)));
}

/// Of what would be chosen.
double others_microseconds(const Problem& problem) {
  constexpr double kStrips = 0.85;  // of what is estimated, beside these
  if (fma_windows::is_faster(problem)) return fma_windows::microseconds(problem);
  if (fma_strips::is_faster(problem)) return kStrips * fma_strips::microseconds(problem);
  if (implicit_gemm::is_for_tiles(problem)) return implicit_gemm::microseconds(problem);
  if (grouped::is_faster(problem)) return grouped::microseconds(problem);
  if (problem.c <= fused::stem::kMaxChannels && fused::stem::is_faster(problem))
    return stem_microseconds(problem);
  return fused_microseconds(problem);
}

}  // namespace

bool is_faster(const Problem& problem) {
  // Where the estimates are near each other, it is slower more often than not.
  constexpr double kPart = 0.95;
  return problem.r * problem.s > 1 && problem.c > 1 && refusal(problem).empty() &&
         windows_mma::microseconds(problem, choose_tile(problem, kH200), kH200) <
             kPart * others_microseconds(problem);
}

}  // namespace im2win::cuda::windows_mma
