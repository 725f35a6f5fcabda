#include "cuda/fused/forms.hpp"

#include <algorithm>
#include <cstdlib>

#include "cuda/fused/refusals.hpp"
#include "cuda/fused/tile.hpp"

namespace im2win::cuda::fused {
namespace {

/// Whether all rows of all images of a tensor are evenly spaced.
bool images_follow(const Tensor& tensor) {
  return tensor.size[2] == 1 || tensor.stride[0] == tensor.size[2] * tensor.stride[2];
}

/// Whether all pixels of an image are.
bool rows_follow(const Tensor& tensor) {
  return tensor.size[2] == 1 || tensor.size[3] == 1 ||
         tensor.stride[2] == tensor.size[3] * tensor.stride[3];
}

/// Whether it is true of each tensor that has pixels.
template <class Holds>
bool all(const Problem& problem, const Holds& holds) {
  return holds(problem.input) && holds(problem.output) &&
         (!problem.has_residual || holds(problem.residual));
}

/// Whether an output meets the pixel in its place and no other.
bool has_single_pixels(const Problem& problem) {
  return problem.r == 1 && problem.s == 1 && !problem.is_padded() && problem.stride_h == 1 &&
         problem.stride_w == 1;
}

/// From a pixel to the next, where rows follow each other.
int64_t pixel_stride(const Tensor& tensor) {
  return tensor.size[3] == 1 ? tensor.stride[2] : tensor.stride[3];
}

}  // namespace

Problem with_merged_images(Problem problem) {
  const bool padded = (problem.padding_top | problem.padding_bottom) != 0;
  const int64_t h = problem.n * problem.h;
  if (problem.n <= 1 || problem.r > 1 || padded || problem.h != problem.p * problem.stride_h ||
      h >= kMaxSize || !all(problem, images_follow) ||
      std::abs(problem.input.stride[0]) * problem.n >= kMaxSpan)
    return problem;
  for (Tensor* tensor : {&problem.input, &problem.output, &problem.residual}) {
    if (tensor->size[2] == 1) tensor->stride[2] = tensor->stride[0];
    tensor->size[2] *= tensor->size[0];
    tensor->size[0] = 1;
  }
  problem.p *= problem.n;
  problem.h = h;
  problem.n = 1;
  return problem;
}

Problem with_merged_rows(Problem problem) {
  const int64_t pixels = problem.h * problem.w;
  const int64_t rows = pixels % 2 == 0 ? 2 : 1, w = pixels / rows;
  if (problem.n > 1 || !has_single_pixels(problem) || w >= kMaxSize || !all(problem, rows_follow))
    return problem;
  for (Tensor* tensor : {&problem.input, &problem.output, &problem.residual}) {
    tensor->stride[3] = pixel_stride(*tensor);
    tensor->stride[2] = w * tensor->stride[3];
    tensor->size[2] = rows;
    tensor->size[3] = w;
  }
  problem.h = problem.p = rows;
  problem.w = problem.q = w;
  return problem;
}

Problem with_images_as_rows(Problem problem) {
  const int64_t w = problem.h * problem.w;
  if (!has_single_pixels(problem) || w >= kMaxTiles ||
      std::abs(problem.input.stride[0]) >= kMaxSpan || !all(problem, rows_follow))
    return problem;
  for (Tensor* tensor : {&problem.input, &problem.output, &problem.residual}) {
    tensor->stride[3] = pixel_stride(*tensor);
    tensor->stride[2] = tensor->stride[0];
    tensor->size[2] = problem.n;
    tensor->size[3] = w;
    tensor->size[0] = 1;
  }
  problem.w = problem.q = w;
  problem.h = problem.p = problem.n;
  problem.n = 1;
  return problem;
}

Problem with_merged_groups(Problem problem, int64_t filters) {
  int64_t merged = std::min(std::max<int64_t>(filters / problem.k_per_group(), 1), problem.groups);
  while (problem.groups % merged != 0) --merged;
  problem.groups /= merged;
  return problem;
}

}  // namespace im2win::cuda::fused
