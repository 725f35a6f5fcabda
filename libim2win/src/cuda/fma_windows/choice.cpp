#include "cuda/fma_windows/choice.hpp"

#include <algorithm>

#include "checked.hpp"
#include "cuda/fma_strips/choice.hpp"
#include "cuda/fma_windows/tile.hpp"
#include "cuda/fused/estimate.hpp"
#include "cuda/fused/forms.hpp"
#include "cuda/fused/stem/tile.hpp"
#include "cuda/implicit_gemm/choice.hpp"
#include "cuda/implicit_gemm/split_k/tile.hpp"

namespace im2win::cuda::fma_windows {
namespace {

constexpr int64_t kFilters = 64;  // of products on the tensor cores
constexpr double kNanosecond = 1e-3;

/// Of im2win_stem: its chunks of rows of pixels, which may be partly empty.
double stem_microseconds(const Problem& problem) {
  constexpr int64_t kChunk = 56, kDense = 3;
  const bool is_float32 = problem.dtype == IM2WIN_FLOAT32;
  const bool is_dense = problem.r == kDense && problem.s == kDense,
             overlaps = problem.stride_h < problem.r || problem.stride_w < problem.s;
  const double pixel = is_float32 ? (is_dense   ? 0.09
                                     : overlaps ? 0.18
                                                : 0.12)
                                  : (is_dense ? 0.055 : 0.1);
  const double pixels = double(problem.n * problem.p) * double(round_up(problem.q, kChunk));
  return (is_float32 ? 9 : 5) +
         kNanosecond * pixel * pixels * double(ceil_div(problem.k_per_group(), kFilters));
}

/// Of im2win_fused: a window's operands take as long to make for each 64 filters, however few its taps. 16-bit pixels are
/// operands where they are.
double fused_microseconds(const Problem& problem) {
  const bool is_float32 = problem.dtype == IM2WIN_FLOAT32;
  const Problem merged = fused::with_merged_groups(problem, kFilters);
  if (!is_float32 && merged.groups == 1 && implicit_gemm::split_k::window_copy(problem) > 1)
    return 0;
  const double pixel = problem.c_per_group() == 1                 ? 0.13
                       : is_float32 && problem.r * problem.s == 1 ? 0.13
                       : is_float32                               ? 0.1
                                                                  : 0.08;
  return 13 + kNanosecond * pixel * double(problem.output_pixels()) * double(merged.groups) *
                  double(ceil_div(merged.k_per_group(), kFilters));
}

/// Estimates of these know nothing of how products of few taps wait for their operands, nor need they where there is little
/// to do. These fit 468 times of up to 200 us on an H200 by 15 %.
double tensor_core_microseconds(const Problem& problem) {
  const bool is_for_stem =
      problem.c_per_group() <= fused::stem::kMaxChannels && fused::stem::is_faster(problem);
  return std::max(fused::microseconds(problem),
                  is_for_stem ? stem_microseconds(problem) : fused_microseconds(problem));
}

}  // namespace

bool is_faster_than_strips(const Problem& problem) {
  constexpr double kHasty =
      1.15;  // how much longer strips take, where both are estimated to take as long
  return microseconds(problem) < kHasty * fma_strips::microseconds(problem);
}

bool is_faster(const Problem& problem) {
  if (problem.math == IM2WIN_MATH_TF32 || !refusal(problem).empty()) return false;
  const double time = microseconds(problem);
  const bool are_others_refused = problem.dtype == IM2WIN_FLOAT32 &&
                                  problem.math == IM2WIN_MATH_IEEE;
  return time < implicit_gemm::microseconds(problem) && (are_others_refused || time < tensor_core_microseconds(problem)) &&
         is_faster_than_strips(problem);
}

}  // namespace im2win::cuda::fma_windows
