// What all depthwise kernels know of the problem, and the sum of one output in the plainest way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "cuda/epilogue.cuh"
#include "cuda/window.cuh"

namespace im2win::cuda {

/// Plain data.
template <class Element, class Compute>
struct DepthwiseArguments {
  const Element* input = nullptr;
  const Element* filter = nullptr;
  Outputs<Element, Compute> outputs;
  Axis vertical, horizontal;
  Divisor multiplier;  // filters of a channel
  int64_t input_stride[4];
  int64_t filter_stride[4];
  bool padded;

  explicit DepthwiseArguments(const Problem& problem)
      : outputs(problem),
        vertical(Axis::vertical(problem)),
        horizontal(Axis::horizontal(problem)),
        multiplier(problem.k_per_group()),
        padded(problem.is_padded()) {
    std::copy(std::begin(problem.input.stride), std::end(problem.input.stride), input_stride);
    std::copy(std::begin(problem.filter.stride), std::end(problem.filter.stride), filter_stride);
  }

  void bind(const Buffers& buffers) {
    input = static_cast<const Element*>(buffers.input);
    filter = static_cast<const Element*>(buffers.filter);
    outputs.bind(buffers);
  }
};

/// Over the taps inside the image alone, so that padding meets no weight, finite or not. All
/// kernels sum in this order.
template <class Element, class Compute>
__device__ __forceinline__ Compute depthwise_sum(const DepthwiseArguments<Element, Compute>& a,
                                                 int64_t n, int64_t k, int64_t p, int64_t q) {
  const TapRange rows = a.vertical.inside(p);
  const TapRange columns = a.horizontal.inside(q);
  const Element* plane =
      a.input + n * a.input_stride[0] + a.multiplier.quotient(k) * a.input_stride[1];
  const Element* filter = a.filter + k * a.filter_stride[0];
  Compute sum = 0;
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const int64_t y = a.vertical.start(p) + r * a.vertical.dilation.divisor;
    const Element* x = plane + y * a.input_stride[2] + a.horizontal.start(q) * a.input_stride[3];
    const Element* f = filter + r * a.filter_stride[2];
    for (int64_t s = columns.begin; s < columns.end; ++s) {
      sum = fma(to_compute<Compute>(f[s * a.filter_stride[3]]),
                to_compute<Compute>(x[s * a.horizontal.dilation.divisor * a.input_stride[3]]), sum);
    }
  }
  return sum;
}

/// Kernels that compute many outputs at once put zeros for the padding, and a non-finite weight
/// makes a NaN of such a zero. NaN stays NaN in a sum, so a sum that is none has not met one; a sum
/// that is NaN is computed again by this. Out of line: it is long, and rarely called.
template <class Element, class Compute>
__device__ __noinline__ Compute exact_sum(const DepthwiseArguments<Element, Compute>& a, int64_t n,
                                          int64_t k, int64_t p, int64_t q) {
  return depthwise_sum(a, n, k, p, q);
}

}  // namespace im2win::cuda
