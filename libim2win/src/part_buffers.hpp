// Where a part of a convolution has its tensors.
#pragma once

#include <cstdint>

#include "backend.hpp"
#include "problem.hpp"

namespace im2win {

inline const void* advance(const void* pointer, int64_t bytes) {
  return static_cast<const char*>(pointer) + bytes;
}
inline void* advance(void* pointer, int64_t bytes) { return static_cast<char*>(pointer) + bytes; }

/// From these indices of a dimension on: of the input's, and of the output's and the residual's.
inline Buffers part_buffers(const Buffers& buffers, const Problem& problem, int dimension,
                            int64_t input, int64_t output) {
  const auto bytes = [&](const Tensor& tensor, int64_t index) {
    return index * tensor.stride[dimension] * element_bytes(problem.dtype);
  };
  Buffers part = buffers;
  part.input = advance(buffers.input, bytes(problem.input, input));
  part.output = advance(buffers.output, bytes(problem.output, output));
  if (problem.has_residual)
    part.residual = advance(buffers.residual, bytes(problem.residual, output));
  return part;
}

}  // namespace im2win
