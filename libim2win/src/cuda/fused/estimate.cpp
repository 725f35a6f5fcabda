#include "cuda/fused/estimate.hpp"

#include <algorithm>

#include "checked.hpp"
#include "cuda/fused/forms.hpp"
#include "cuda/fused/stem/tile.hpp"
#include "cuda/implicit_gemm/split_k/tile.hpp"

namespace im2win::cuda::fused {
namespace {

/// Products have so many filters at least, or of as many those of merged groups, which are mostly zeros.
constexpr int64_t kFilters = 64;

bool is_split(const Problem& problem) {
  return problem.dtype == IM2WIN_FLOAT32 && problem.math != IM2WIN_MATH_TF32;
}

bool is_pixel(const Problem& problem) { return problem.r * problem.s == 1; }

/// 16-bit operands that both are words of neighbours in memory are read as they are: filters need no kernel before.
bool reads_words(const Problem& problem) {
  using namespace implicit_gemm;
  constexpr int kWord = 8;
  return problem.dtype != IM2WIN_FLOAT32 && split_k::window_copy(problem) == kWord &&
         split_k::filter_copy(problem) == kWord;
}

/// Windows of few channels that have no inputs in common: most of a line that is read is none of a unit's. As channels,
/// columns are in whole words what they are.
bool is_patch(const Problem& problem) {
  constexpr int64_t kFewChannels = 8, kLongStep = 8, kWord = 8;
  const bool has_words = problem.dtype != IM2WIN_FLOAT32 && problem.input.stride[1] == 1 &&
                         problem.c_per_group() * (problem.stride_w % kWord) % kWord == 0;
  return problem.c_per_group() < kFewChannels && !has_words &&
         std::min(problem.stride_h, problem.stride_w) >= kLongStep;
}

/// What it takes at least, however little there is to do.
double start(const Problem& problem, const Problem& merged) {
  const bool has_pixels = problem.input.stride[1] == 1;
  const bool is_for_stem = problem.c_per_group() <= stem::kMaxChannels && stem::is_faster(problem);
  if (is_for_stem) return problem.dtype == IM2WIN_FLOAT32 ? 9 : has_pixels ? 5 : 8;
  if (is_split(problem)) return is_pixel(problem) ? 13 : 15.5;
  if (merged.groups == problem.groups && reads_words(problem)) return has_pixels ? 5 : 4.5;
  return has_pixels ? 10 : 13;
}

}  // namespace

// Beside 2109 times of up to 80 us on an H200 half of the estimates are within 13 % in float32, and 16 % with 16 bits.
double microseconds(const Problem& problem) {
  struct Slopes {
    double product, tap;
  };
  const Slopes slopes = !is_split(problem)  ? Slopes{0.28e-8, 0.0015}
                        : is_pixel(problem) ? Slopes{2.3e-8, 0.005}
                                            : Slopes{1.05e-8, 0.002};
  constexpr double kPatch = 20;
  const Problem merged = with_merged_groups(problem, kFilters);
  const double filters = double(merged.groups) * double(round_up(merged.k_per_group(), kFilters));
  const double products =
      filters * double(merged.output_pixels()) * double(merged.window_elements());
  return start(problem, merged) + (is_patch(problem) ? kPatch : 0) + slopes.product * products +
         slopes.tap * double(problem.window_elements());
}

}  // namespace im2win::cuda::fused
