#include "cuda/fma_windows/choice.hpp"

#include "cuda/fma_strips/choice.hpp"
#include "cuda/fma_windows/tile.hpp"
#include "cuda/fused/estimate.hpp"
#include "cuda/implicit_gemm/choice.hpp"

namespace im2win::cuda::fma_windows {

// Of strips last: their tiles are many.
bool is_faster_than_strips(const Problem& problem) {
  constexpr double kStrips = 1.15;  // how much longer than estimated they take beside these
  return refusal(problem).empty() &&
         microseconds(problem) < kStrips * fma_strips::microseconds(problem);
}

bool is_faster(const Problem& problem) {
  if (!refusal(problem).empty()) return false;
  const double time = microseconds(problem);
  const bool have_tensor_cores =
      problem.dtype != IM2WIN_FLOAT32 || problem.math != IM2WIN_MATH_IEEE;
  return time < implicit_gemm::microseconds(problem) &&
         (!have_tensor_cores || time < fused::microseconds_of_few_taps(problem)) &&
         is_faster_than_strips(problem);
}

}  // namespace im2win::cuda::fma_windows
