// What all depthwise kernels know of the problem, and the sum of one output in the plainest way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>

#include "cuda/depthwise/ptx.cuh"
#include "cuda/epilogue.cuh"
#include "cuda/window.cuh"

extern __shared__ __align__(16) char dynamic_shared_memory[];

namespace im2win::cuda {

/// NaN stays NaN.
__device__ __forceinline__ double clamp(double x, double low, double high) {
  return x < low ? low : x > high ? high : x;
}

/// Whether an epilogue is a bias and an activation: kernels with full registers take no others.
inline bool only_activates(const Problem& problem) {
  return problem.alpha == 1 && !problem.has_residual;
}

/// An epilogue that only adds the bias and keeps the sum within bounds, as most do. Plain data.
template <class Compute>
struct Clamp {
  Compute low, high;

  static constexpr Clamp none() {
    constexpr Compute kInfinity = std::numeric_limits<Compute>::infinity();
    return {-kInfinity, kInfinity};
  }

  static std::optional<Clamp> of(const Problem& problem) {
    constexpr Compute kInfinity = none().high;
    if (!only_activates(problem)) return std::nullopt;
    switch (problem.activation) {
      case IM2WIN_IDENTITY: return none();
      case IM2WIN_RELU: return Clamp{0, kInfinity};
      case IM2WIN_RELU6: return Clamp{0, 6};
      case IM2WIN_CLAMP:
        return Clamp{static_cast<Compute>(problem.activation_params[0]),
                     static_cast<Compute>(problem.activation_params[1])};
      default: return std::nullopt;
    }
  }

  __device__ __forceinline__ Compute operator()(Compute x) const { return clamp(x, low, high); }
};

/// Plain data.
template <class Element, class Compute>
struct DepthwiseArguments {
  const Element* input = nullptr;
  const Element* filter = nullptr;
  Outputs<Element, Compute> outputs;
  // What the epilogue does beside the bias, if it `clamps`; of others, no bounds.
  Clamp<Compute> clamp;
  bool clamps;
  Axis vertical, horizontal;
  Divisor multiplier;  // filters of a channel
  int64_t input_stride[4];
  int64_t filter_stride[4];

  explicit DepthwiseArguments(const Problem& problem)
      : outputs(problem),
        clamp(Clamp<Compute>::of(problem).value_or(Clamp<Compute>::none())),
        clamps(Clamp<Compute>::of(problem).has_value()),
        vertical(Axis::vertical(problem)),
        horizontal(Axis::horizontal(problem)),
        multiplier(problem.k_per_group()) {
    // Steps that are never taken may be of any size.
    for (int axis = 0; axis < 4; ++axis)
      input_stride[axis] = problem.input.size[axis] > 1 ? problem.input.stride[axis] : 0;
    std::copy(std::begin(problem.filter.stride), std::end(problem.filter.stride), filter_stride);
  }

  void bind(const Buffers& buffers) {
    input = static_cast<const Element*>(buffers.input);
    filter = static_cast<const Element*>(buffers.filter);
    outputs.bind(buffers);
  }
};

/// The block's dynamic shared memory.
template <class Element>
__device__ __forceinline__ Element* dynamic_shared() {
  return reinterpret_cast<Element*>(dynamic_shared_memory);
}

/// Over the taps inside the image alone, so that padding meets no weight, finite or not.
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

/// What is stored for a sum, whatever the epilogue. Out of line: it is long.
template <class Element, class Compute>
__device__ __noinline__ Element finish_any(const DepthwiseArguments<Element, Compute>& a, int64_t n,
                                           int64_t k, int64_t p, int64_t q, Compute sum) {
  return a.outputs.value(a.outputs.filter(k), a.outputs.pixel(n, p, q), sum);
}

/// What is stored, computed in the plainest way.
///
/// Kernels that compute many outputs at once put zeros for what a window lacks, and those make NaN
/// of infinite factors. They call this for outputs that may have met such a product.
template <class Element, class Compute>
__device__ __noinline__ Element compute_any(const DepthwiseArguments<Element, Compute>& a,
                                            int64_t n, int64_t k, int64_t p, int64_t q) {
  return finish_any(a, n, k, p, q, depthwise_sum(a, n, k, p, q));
}

/// Stores that. `filter` is that of k.
template <class Element, class Compute>
__device__ __forceinline__ void write_any(const DepthwiseArguments<Element, Compute>& a,
                                          const typename Outputs<Element, Compute>::Filter& filter,
                                          int64_t n, int64_t k, int64_t p, int64_t q) {
  *a.outputs.address(filter, a.outputs.pixel(n, p, q)) = compute_any(a, n, k, p, q);
}

}  // namespace im2win::cuda
