// What direct convolution knows of the problem, and the sum of one output in the plainest way: every
// tensor by its strides, over the taps inside the image alone, so that padding meets no weight, finite
// or not.
#pragma once

#include <algorithm>
#include <iterator>

#include "cuda/epilogue.cuh"
#include "cuda/output_order.cuh"
#include "cuda/window.cuh"

namespace im2win::cuda {

/// Plain data.
template <class Element, class Compute>
struct DirectArguments {
  const Element* input = nullptr;
  const Element* filter = nullptr;
  Outputs<Element, Compute> outputs;
  OutputOrder order;
  Axis vertical, horizontal;
  Divisor k_per_group;
  int64_t c_per_group;
  int64_t dilation_h, dilation_w;
  int64_t input_stride[4];
  int64_t filter_stride[4];

  explicit DirectArguments(const Problem& problem)
      : outputs(problem),
        order(problem),
        vertical(Axis::vertical(problem)),
        horizontal(Axis::horizontal(problem)),
        k_per_group(problem.k_per_group()),
        c_per_group(problem.c_per_group()),
        dilation_h(problem.dilation_h),
        dilation_w(problem.dilation_w) {
    std::copy(std::begin(problem.input.stride), std::end(problem.input.stride), input_stride);
    std::copy(std::begin(problem.filter.stride), std::end(problem.filter.stride), filter_stride);
  }
};

template <class Element, class Compute>
__device__ __forceinline__ Compute window_sum(const DirectArguments<Element, Compute>& a,
                                              const OutputIndex& at) {
  const TapRange rows = a.vertical.inside(at.p);
  const TapRange columns = a.horizontal.inside(at.q);
  const int64_t first_c = a.k_per_group.quotient(at.k) * a.c_per_group;
  const Element* image = a.input + at.n * a.input_stride[0] + first_c * a.input_stride[1];
  const Element* filter = a.filter + at.k * a.filter_stride[0];
  Compute sum = 0;
  for (int64_t c = 0; c < a.c_per_group; ++c) {
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const int64_t y = a.vertical.start(at.p) + r * a.dilation_h;
      const Element* x = image + c * a.input_stride[1] + y * a.input_stride[2] +
                         a.horizontal.start(at.q) * a.input_stride[3];
      const Element* f = filter + c * a.filter_stride[1] + r * a.filter_stride[2];
      for (int64_t s = columns.begin; s < columns.end; ++s) {
        sum = fma(to_compute<Compute>(f[s * a.filter_stride[3]]),
                  to_compute<Compute>(x[s * a.dilation_w * a.input_stride[3]]), sum);
      }
    }
  }
  return sum;
}

}  // namespace im2win::cuda
