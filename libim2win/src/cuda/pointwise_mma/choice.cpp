#include "cuda/pointwise_mma/choice.hpp"

#include <algorithm>

#include "cuda/fma_windows/tile.hpp"
#include "cuda/fused/estimate.hpp"
#include "cuda/implicit_gemm/choice.hpp"
#include "cuda/pointwise_mma/tile.hpp"

namespace im2win::cuda::pointwise_mma {
namespace {

double others_microseconds(const Problem& problem) {
  double others = are_rows(problem) ? fused::microseconds_of_rows(problem)
                                    : fused::microseconds_of_planes(problem);
  // In TF32 boxes take long to begin.
  if (are_rows(problem) && operands_of(problem) == Operands::kTf32)
    others = std::max(others, fused::microseconds(problem));
  if (implicit_gemm::is_for_tiles(problem))
    others = std::min(others, implicit_gemm::microseconds(problem));
  if (fma_windows::refusal(problem).empty())
    others = std::min(others, fma_windows::microseconds(problem));
  return others;
}

}  // namespace

bool is_faster(const Problem& problem) {
  // Of what others are estimated to take: where the estimates are near each other, it is slower more often than not.
  const double part = are_rows(problem) && operands_of(problem) != Operands::kThirds ? 0.9 : 0.95;
  // Planes of a pixel are neighbouring channels, too.
  return problem.h * problem.w > 1 && refusal(problem).empty() &&
         microseconds(problem, choose_tile(problem, kH200), kH200) <
             part * others_microseconds(problem);
}

}  // namespace im2win::cuda::pointwise_mma
