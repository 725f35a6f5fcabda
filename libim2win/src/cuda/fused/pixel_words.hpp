// Words of neighbouring channels, or filters, of a pixel. Host-only.
#pragma once

#include <cstdint>
#include <numeric>

#include "tensor.hpp"

namespace im2win::cuda::fused {

/// The most elements that words may have: a group's `channels`, neighbours in memory, are whole words, and so is what
/// lies between pixels.
inline int64_t pixel_word(const Tensor& tensor, int64_t channels) {
  int64_t between = channels;
  for (const int dimension : {0, 2, 3})
    if (tensor.size[dimension] > 1) between = std::gcd(between, tensor.stride[dimension]);
  return between;
}

}  // namespace im2win::cuda::fused
