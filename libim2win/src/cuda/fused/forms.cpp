#include "cuda/fused/forms.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "cuda/fused/refusals.hpp"
#include "cuda/fused/tile.hpp"

namespace im2win::cuda::fused {
namespace {

/// Whether all rows of all images of a tensor are evenly spaced. Those of a row each are, too, but channels of several
/// neighbouring pixels are better lines of an image.
bool images_follow(const Tensor& tensor) {
  const bool has_lines = tensor.size[3] > 1 && tensor.stride[3] == 1;
  return tensor.stride[0] == tensor.size[2] * tensor.stride[2] ||
         (tensor.size[2] == 1 && !has_lines);
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

/// Whether columns are channels next to each other, and so are these.
bool columns_follow(const Tensor& tensor) {
  return (tensor.size[1] == 1 || tensor.stride[1] == 1) && tensor.stride[3] == tensor.size[1];
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

Problem with_columns_as_channels(Problem problem) {
  const int64_t step = problem.stride_w;
  // Those that are inside, of all that windows meet: columns beyond the last whole step must be none of them.
  const int64_t met = problem.q - 1 + problem.s / step - problem.padding_left / step;
  const int64_t w = std::min(problem.w / step, met);
  if (step == 1 || problem.groups > 1 || problem.dilation_w > 1 || problem.s % step != 0 ||
      problem.padding_left % step != 0 || w < 1 || (w < met && problem.w % step != 0) ||
      problem.c * step >= kMaxSize || !columns_follow(problem.input) ||
      !columns_follow(problem.filter))
    return problem;
  for (Tensor* tensor : {&problem.input, &problem.filter}) {
    tensor->size[1] *= step;
    tensor->stride[1] = 1;
    tensor->stride[3] *= step;
  }
  problem.c *= step;
  problem.input.size[3] = problem.w = w;
  problem.filter.size[3] = problem.s /= step;
  problem.padding_left /= step;
  problem.padding_right = met - w;
  problem.stride_w = 1;
  return problem;
}

Problem with_rows_as_columns(Problem problem) {
  const int64_t w = problem.r * problem.w;
  if (problem.r == 1 || problem.s > 1 || problem.stride_w > 1 || problem.is_padded() ||
      problem.stride_h != problem.r || problem.dilation_h > 1 || w >= kMaxSize ||
      !rows_follow(problem.input))
    return problem;
  Tensor &input = problem.input, &filter = problem.filter;
  input.stride[3] = pixel_stride(input);
  input.stride[2] *= problem.r;
  filter.stride[3] = filter.stride[2];
  input.size[2] = problem.h = problem.p;
  filter.size[3] = problem.s = problem.r;
  problem.dilation_w = problem.w;
  input.size[3] = problem.w = w;
  filter.size[2] = problem.r = 1;
  problem.stride_h = 1;
  return problem;
}

Problem with_planes_as_rows(Problem problem) {
  Tensor &input = problem.input, &filter = problem.filter;
  if (problem.c == 1 || problem.s == 1 || problem.groups > 1 || problem.is_padded() ||
      problem.r != problem.stride_h || problem.s != problem.stride_w || problem.dilation_h > 1 ||
      problem.dilation_w > 1 || input.stride[3] != 1 || filter.stride[3] != 1 ||
      input.stride[2] < problem.s || input.stride[2] % problem.s != 0)
    return problem;
  const int64_t step = problem.r * input.stride[2];
  if (input.stride[1] < step || input.stride[1] % step != 0) return problem;
  const int64_t below = input.stride[1] / step, beside = input.stride[2] / problem.s;
  const int64_t h = (problem.c - 1) * below + problem.p, w = (problem.r - 1) * beside + problem.q;
  if (std::max(h, w) >= kMaxSize) return problem;
  input = {{problem.n, problem.s, h, w}, {input.stride[0], 1, step, problem.s}};
  filter = {{problem.k, problem.s, problem.c, problem.r},
            {filter.stride[0], 1, filter.stride[1], filter.stride[2]}};
  problem.c = std::exchange(problem.s, std::exchange(problem.r, problem.c));
  problem.h = h;
  problem.w = w;
  problem.stride_h = problem.stride_w = 1;
  problem.dilation_h = below;
  problem.dilation_w = beside;
  return problem;
}

Problem with_merged_groups(Problem problem, int64_t filters) {
  int64_t merged = std::min(std::max<int64_t>(filters / problem.k_per_group(), 1), problem.groups);
  while (problem.groups % merged != 0) --merged;
  problem.groups /= merged;
  return problem;
}

}  // namespace im2win::cuda::fused
