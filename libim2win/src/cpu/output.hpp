// Finished sums on their way to the output tensor: bias, residual, activation, rounding, layout.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "backend.hpp"
#include "cpu/kernels.hpp"
#include "epilogue.hpp"

namespace im2win::cpu {

constexpr int64_t kCachedBytes = int64_t{16} * 1024 * 1024;  // what a last-level cache may keep

/// Of an element, from element [0, 0, 0, 0].
inline int64_t offset(const Tensor& tensor, int64_t n, int64_t k, int64_t p, int64_t q) {
  return n * tensor.stride[0] + k * tensor.stride[1] + p * tensor.stride[2] + q * tensor.stride[3];
}

/// Whether kernels can write to it.
inline bool has_unit_stride(const Tensor& output) {
  return output.stride[1] == 1 || output.stride[3] == 1;
}

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

template <class Element, class Compute>
class OutputWriter {
 public:
  OutputWriter(const Problem& problem, const Buffers& buffers)
      : problem_(problem),
        epilogue_(problem),
        bias_(buffers.bias),
        residual_(static_cast<const Element*>(buffers.residual)),
        output_(static_cast<Element*>(buffers.output)) {}

  /// Writes the outputs [n, k, p, q .. q + count) from their sums, which are `sum_stride` apart.
  void write(int64_t n, int64_t k, int64_t p, int64_t q, const Compute* sums, int64_t sum_stride,
             int64_t count) const {
    Element* output = output_ + offset(problem_.output, n, k, p, q);
    const int64_t step = problem_.output.stride[3];
    const Compute bias = bias_of(k);
    if (epilogue_.is_sum_plus_bias()) {
      for (int64_t i = 0; i < count; ++i)
        output[i * step] = static_cast<Element>(sums[i * sum_stride] + bias);
      return;
    }
    const int64_t residual_offset = offset(problem_.residual, n, k, p, q);
    const int64_t residual_step = problem_.residual.stride[3];
    for (int64_t i = 0; i < count; ++i) {
      const Compute residual =
          problem_.has_residual
              ? static_cast<Compute>(residual_[residual_offset + i * residual_step])
              : Compute(0);
      output[i * step] = static_cast<Element>(epilogue_(sums[i * sum_stride], residual, bias));
    }
  }

  /// Zero without one.
  Compute bias_of(int64_t k) const {
    if (problem_.bias_dtype == IM2WIN_NONE) return 0;
    const int64_t i = k * problem_.bias_stride;
    if (problem_.bias_dtype == problem_.dtype)
      return static_cast<Compute>(static_cast<const Element*>(bias_)[i]);
    return static_cast<Compute>(static_cast<const float*>(bias_)[i]);
  }

 private:
  const Problem& problem_;
  Epilogue<Compute> epilogue_;
  const void* bias_;
  const Element* residual_;
  Element* output_;
};

/// The bias of the filters of each group, which is `group_filters` long; zeros if the kernels are not to
/// add it.
template <class Element, class Compute>
void fill_bias(const Problem& problem, const Buffers& buffers, bool is_added, int64_t group_filters,
               Compute* bias) {
  const OutputWriter<Element, Compute> writer(problem, buffers);
  std::fill_n(bias, problem.groups * group_filters, Compute(0));
  for (int64_t k = 0; is_added && k < problem.k; ++k)
    bias[k / problem.k_per_group() * group_filters + k % problem.k_per_group()] = writer.bias_of(k);
}

}  // namespace im2win::cpu
