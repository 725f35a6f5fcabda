#include "cuda/implicit_gemm/choice.hpp"

#include <algorithm>
#include <cstdlib>

#include "checked.hpp"

namespace im2win::cuda::implicit_gemm {

int64_t blocks_of(const Problem& problem, int edge) {
  return problem.groups * ceil_div(problem.k_per_group(), edge) *
         std::max<int64_t>(ceil_div(problem.output_pixels(), edge), 1);
}

bool are_channels_last(const Problem& problem) {
  return std::abs(problem.input.stride[1]) < std::abs(problem.input.stride[3]);
}

// It fits 290 times of up to 25 us, half of them within 10 %.
double microseconds(const Problem& problem) {
  constexpr double kStart = 2.2, kElement = 0.05, kBlockElement = 0.00028, kChannelsLast = 1.2;
  const double blocks = double(blocks_of(problem, kSmallEdge));
  const double elements = double(problem.window_elements());
  const double times = are_channels_last(problem) ? kChannelsLast : 1;
  return times * (kStart + elements * (kElement + kBlockElement * blocks));
}

bool is_for_tiles(const Problem& problem) {
  constexpr int64_t kShortWindow = 240, kFewBlocks = 128, kLittleWork = 40000;
  if (problem.dtype != IM2WIN_FLOAT32) return problem.dtype == IM2WIN_FLOAT64;
  const int64_t window = problem.window_elements();
  return window <= kShortWindow && blocks_of(problem, kLargeEdge) <= kFewBlocks &&
         blocks_of(problem, kSmallEdge) * window <= kLittleWork;
}

}  // namespace im2win::cuda::implicit_gemm
