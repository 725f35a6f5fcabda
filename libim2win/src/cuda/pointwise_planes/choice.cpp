#include "cuda/pointwise_planes/choice.hpp"

#include <algorithm>

#include "cuda/fma_windows/tile.hpp"
#include "cuda/fused/estimate.hpp"
#include "cuda/implicit_gemm/choice.hpp"
#include "cuda/pointwise_planes/tile.hpp"

namespace im2win::cuda::pointwise_planes {

bool is_faster(const Problem& problem) {
  // Of what others are estimated to take: where the estimates are near each other, it is slower more often than not.
  constexpr double kPart = 0.95;
  // Planes of a pixel are neighbouring channels, too.
  if (problem.h * problem.w == 1 || !refusal(problem).empty()) return false;
  double others = fused::microseconds_of_planes(problem);
  if (implicit_gemm::is_for_tiles(problem))
    others = std::min(others, implicit_gemm::microseconds(problem));
  if (fma_windows::refusal(problem).empty())
    others = std::min(others, fma_windows::microseconds(problem));
  return microseconds(problem, choose_tile(problem, kH200), kH200) < kPart * others;
}

}  // namespace im2win::cuda::pointwise_planes
