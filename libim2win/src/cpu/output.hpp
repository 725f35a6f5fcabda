// Finished sums on their way to the output tensor: bias, residual, activation, rounding, layout.
#pragma once

#include <cstdint>

#include "backend.hpp"
#include "cpu/half.hpp"
#include "epilogue.hpp"

namespace im2win::cpu {

/// Of an element, from element [0, 0, 0, 0].
inline int64_t offset(const Tensor& tensor, int64_t n, int64_t k, int64_t p, int64_t q) {
  return n * tensor.stride[0] + k * tensor.stride[1] + p * tensor.stride[2] + q * tensor.stride[3];
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

}  // namespace im2win::cpu
