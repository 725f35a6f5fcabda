#include "cuda/implicit_gemm/choice.hpp"

#include <algorithm>
#include <cstdlib>

#include "checked.hpp"
#include "cuda/grouped/tile.hpp"
#include "cuda/implicit_gemm/split_k/tile.hpp"
#include "cuda/pointwise/tile.hpp"

namespace im2win::cuda::implicit_gemm {

int64_t blocks_of(const Problem& problem, int edge) {
  return problem.groups * ceil_div(problem.k_per_group(), edge) *
         std::max<int64_t>(ceil_div(problem.output_pixels(), edge), 1);
}

bool are_channels_last(const Tensor& tensor) {
  if (tensor.size[1] <= 1) return false;
  for (const int dimension : {3, 2, 0})
    if (tensor.size[dimension] > 1)
      return std::abs(tensor.stride[1]) < std::abs(tensor.stride[dimension]);
  return true;
}

bool are_channels_last(const Problem& problem) {
  return are_channels_last(problem.c > 1 ? problem.input : problem.output);
}

double microseconds(const Problem& problem) {
  constexpr int kMultiprocessors = 132;
  const split_k::Tile tile = split_k::choose_tile(problem, kMultiprocessors, true);
  return split_k::microseconds(problem, tile, kMultiprocessors);
}

bool is_for_tiles(const Problem& problem) {
  if (problem.dtype == IM2WIN_FLOAT64) return true;
  if (!split_k::refusal(problem).empty()) return false;
  const double others = pointwise::is_faster(problem) ? pointwise::microseconds(problem)
                                                      : grouped::least_microseconds(problem);
  return microseconds(problem) < others;
}

}  // namespace im2win::cuda::implicit_gemm
