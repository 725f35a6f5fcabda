// What all depthwise kernels know of the problem, and the sum of one output in the plainest way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>

#include "cuda/epilogue.cuh"
#include "cuda/window.cuh"

namespace im2win::cuda {

/// An epilogue that only adds the bias and keeps the sum within bounds, as most do. Plain data.
template <class Compute>
struct Clamp {
  Compute low, high;

  static std::optional<Clamp> of(const Problem& problem) {
    constexpr Compute kInfinity = std::numeric_limits<Compute>::infinity();
    if (problem.alpha != 1 || problem.has_residual) return std::nullopt;
    switch (problem.activation) {
      case IM2WIN_IDENTITY: return Clamp{-kInfinity, kInfinity};
      case IM2WIN_RELU: return Clamp{0, kInfinity};
      case IM2WIN_RELU6: return Clamp{0, 6};
      case IM2WIN_CLAMP:
        return Clamp{static_cast<Compute>(problem.activation_params[0]),
                     static_cast<Compute>(problem.activation_params[1])};
      default: return std::nullopt;
    }
  }

  /// Of what is not NaN.
  __device__ __forceinline__ Compute operator()(Compute x) const {
    return fmin(fmax(x, low), high);
  }
};

/// Plain data.
template <class Element, class Compute>
struct DepthwiseArguments {
  const Element* input = nullptr;
  const Element* filter = nullptr;
  Outputs<Element, Compute> outputs;
  Clamp<Compute> clamp;  // in place of the outputs' epilogue, by kernels that are told so
  Axis vertical, horizontal;
  Divisor multiplier;  // filters of a channel
  int64_t input_stride[4];
  int64_t filter_stride[4];

  explicit DepthwiseArguments(const Problem& problem)
      : outputs(problem),
        clamp(Clamp<Compute>::of(problem).value_or(Clamp<Compute>{0, 0})),
        vertical(Axis::vertical(problem)),
        horizontal(Axis::horizontal(problem)),
        multiplier(problem.k_per_group()) {
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

/// Which rows of a strip, of at most 32, hold a NaN.
///
/// Kernels that compute many outputs at once put zeros for the padding, and a non-finite weight
/// makes a NaN of such a zero. NaN stays NaN in a sum, so a sum that is none has not met one; a row
/// with a sum that is NaN is set aside, to be computed again by depthwise_sum() once the registers
/// are free.
class UndefinedRows {
 public:
  template <int kCount, class Compute>
  __device__ __forceinline__ bool set_aside(int row, const Compute (&sums)[kCount]) {
    bool is_undefined = false;
#pragma unroll
    for (int i = 0; i < kCount; ++i) is_undefined |= sums[i] != sums[i];
    if (is_undefined) rows_ |= 1u << row;
    return is_undefined;
  }

  /// Calls visit(row, column) for the first `count` outputs of each.
  template <class Visit>
  __device__ __forceinline__ void visit(int count, Visit visit) {
    for (; rows_ != 0; rows_ &= rows_ - 1) {
#pragma unroll 1
      for (int i = 0; i < count; ++i) visit(__ffs(static_cast<int>(rows_)) - 1, i);
    }
  }

 private:
  unsigned rows_ = 0;
};

/// What is stored for row `row` of a strip, of which the first output is at n, p, q; false where it
/// is set aside.
template <bool kIsClamp, int kCount, class Element, class Compute>
__device__ __forceinline__ bool finish_row(const DepthwiseArguments<Element, Compute>& a,
                                           const typename Outputs<Element, Compute>::Filter& filter,
                                           int64_t n, int64_t p, int64_t q, int count,
                                           const Compute (&sums)[kCount], UndefinedRows& undefined,
                                           int row, Element (&finished)[kCount]) {
  if constexpr (kIsClamp) {
    Compute biased[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) biased[i] = sums[i] + filter.bias;
    if (undefined.set_aside(row, biased)) return false;
#pragma unroll
    for (int i = 0; i < kCount; ++i) finished[i] = from_compute<Element>(a.clamp(biased[i]));
  } else {
    if (undefined.set_aside(row, sums)) return false;
    a.outputs.finish_row(filter, a.outputs.pixel(n, p, q), count, sums, finished);
  }
  return true;
}

}  // namespace im2win::cuda
