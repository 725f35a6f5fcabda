#include "cuda/windows_mma/choice.hpp"

#include "cuda/fma_strips/choice.hpp"
#include "cuda/fma_windows/choice.hpp"
#include "cuda/fma_windows/tile.hpp"
#include "cuda/fused/estimate.hpp"
#include "cuda/grouped/tile.hpp"
#include "cuda/implicit_gemm/choice.hpp"
#include "cuda/windows_mma/tile.hpp"

namespace im2win::cuda::windows_mma {
namespace {

/// Of what would be chosen.
double others_microseconds(const Problem& problem) {
  constexpr double kStrips = 0.85;  // of what is estimated, beside these
  if (fma_windows::is_faster(problem)) return fma_windows::microseconds(problem);
  if (fma_strips::is_faster(problem)) return kStrips * fma_strips::microseconds(problem);
  if (implicit_gemm::is_for_tiles(problem)) return implicit_gemm::microseconds(problem);
  if (grouped::is_faster(problem)) return grouped::microseconds(problem);
  return fused::microseconds_of_few_channels(problem);
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
