// What both forms of the CPU's depthwise algorithm are made of.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "backend.hpp"
#include "checked.hpp"
#include "cpu/depthwise_kernels.hpp"

namespace im2win::cpu {

/// The kernels of choose_isa() for a type of tensor.
template <class Element>
const DepthwiseKernels<Element>& choose_depthwise_kernels();

template <class Compute>
constexpr Range<Compute> unbounded() {
  return {-std::numeric_limits<Compute>::infinity(), std::numeric_limits<Compute>::infinity()};
}

/// What the kernels can do of the epilogue themselves: bias and bounds. Nothing if it takes more.
template <class Compute>
std::optional<Range<Compute>> range_of(const Problem& problem) {
  if (problem.alpha != 1 || problem.has_residual) return std::nullopt;
  switch (problem.activation) {
    case IM2WIN_IDENTITY: return unbounded<Compute>();
    case IM2WIN_RELU: return Range<Compute>{0, unbounded<Compute>().high};
    case IM2WIN_RELU6: return Range<Compute>{0, 6};
    case IM2WIN_CLAMP:
      return Range<Compute>{static_cast<Compute>(problem.activation_params[0]),
                            static_cast<Compute>(problem.activation_params[1])};
    default: return std::nullopt;
  }
}

/// Rows of outputs that a task takes: few enough for all threads to have some tasks, and at least 1,
/// also for an empty batch.
inline int64_t balanced_rows(int64_t rows, int64_t rows_per_image, int32_t threads) {
  constexpr int64_t kTasksPerThread = 4;
  const int64_t balanced = ceil_div(rows, kTasksPerThread * threads);
  return std::clamp<int64_t>(balanced, 1, rows_per_image);
}

/// Rows, or columns, of the padded input that `outputs` outputs see.
inline int64_t seen_rows(const Problem& problem, int64_t outputs) {
  return (outputs - 1) * problem.stride_h + (problem.r - 1) * problem.dilation_h + 1;
}
inline int64_t seen_columns(const Problem& problem, int64_t outputs) {
  return (outputs - 1) * problem.stride_w + (problem.s - 1) * problem.dilation_w + 1;
}

/// Channels of a panel, at most; whole vectors on any machine.
constexpr int64_t kBlockChannels = 64;

std::unique_ptr<Convolution> make_depthwise_channels(const Problem& problem, const Target& target);
std::unique_ptr<Convolution> make_depthwise_planes(const Problem& problem, const Target& target);

/// A form of the algorithm for the problem's type.
template <template <class> class Form>
std::unique_ptr<Convolution> make_form(const Problem& problem, const Target& target) {
  switch (problem.dtype) {
    case IM2WIN_FLOAT64: return std::make_unique<Form<double>>(problem, target);
    case IM2WIN_FLOAT32: return std::make_unique<Form<float>>(problem, target);
    case IM2WIN_FLOAT16: return std::make_unique<Form<Float16>>(problem, target);
    case IM2WIN_BFLOAT16: return std::make_unique<Form<BFloat16>>(problem, target);
    case IM2WIN_NONE: break;
  }
  fail(IM2WIN_INTERNAL_ERROR, "a problem without a dtype");
}

}  // namespace im2win::cpu
