#include "cuda/fused/refusals.hpp"

#include <cstdlib>

#include "cuda/fused/tile.hpp"
#include "status.hpp"

namespace im2win::cuda::fused {
namespace {

/// A product of split operands is off by 2^-21 at most, where a sum of float32 products may be off by
/// 2^-22 of their magnitudes: it is far below that where many products, off by chance, make up a sum.
constexpr int64_t kLeastSplitProducts = 16;

std::string refuse_sizes(const Problem& problem) {
  for (const int64_t size :
       {problem.h, problem.w, problem.p, problem.q, problem.r, problem.s, problem.c_per_group(),
        problem.k_per_group(), problem.stride_h, problem.stride_w, problem.r * problem.dilation_h,
        problem.s * problem.dilation_w})
    if (size >= kMaxSize) return text("takes sizes and steps below 2^20, not ", size);
  const auto reach = [&](int dimension, int64_t count) {
    return std::abs(problem.input.stride[dimension]) * (count - 1);
  };
  const int64_t image = reach(2, problem.h) + reach(3, problem.w);
  if (image >= kMaxSpan)
    return text("takes images that span fewer than 2^30 elements, not ", image);
  return "";
}

}  // namespace

std::string refuse_operands(const Problem& problem) {
  if (problem.dtype == IM2WIN_FLOAT64) return "does not take float64";
  if (problem.dtype == IM2WIN_FLOAT32 && problem.math == IM2WIN_MATH_IEEE)
    return "does not take math mode ieee";
  if (operands_of(problem) == Operands::kSplit && problem.window_elements() < kLeastSplitProducts)
    return text("takes float32 windows of ", kLeastSplitProducts, " elements or more, not ",
                problem.window_elements());
  return refuse_sizes(problem);
}

}  // namespace im2win::cuda::fused
