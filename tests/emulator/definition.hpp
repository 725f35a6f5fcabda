// Random numbers, and what a convolution's outputs are by definition.
#pragma once

#include <cstdint>
#include <random>

#include "problem.hpp"

namespace im2win {

inline std::mt19937 random_bits(2023);

inline int64_t between(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random_bits);
}

inline bool once_in(int n) { return between(1, n) == 1; }

inline int64_t offset(const Tensor& tensor, int64_t n, int64_t c, int64_t y, int64_t x) {
  const int64_t(&stride)[4] = tensor.stride;
  return n * stride[0] + c * stride[1] + y * stride[2] + x * stride[3];
}

/// use(offset in the input, offset in the filter) for each product of an output, in order.
template <class Use>
void for_each_product(const Problem& problem, int64_t n, int64_t k, int64_t p, int64_t q, Use use) {
  const int64_t first_c = k / problem.k_per_group() * problem.c_per_group();
  for (int64_t c = 0; c < problem.c_per_group(); ++c)
    for (int64_t r = 0; r < problem.r; ++r)
      for (int64_t s = 0; s < problem.s; ++s) {
        const int64_t y = p * problem.stride_h + r * problem.dilation_h - problem.padding_top;
        const int64_t x = q * problem.stride_w + s * problem.dilation_w - problem.padding_left;
        if (y < 0 || y >= problem.h || x < 0 || x >= problem.w) continue;
        use(offset(problem.input, n, first_c + c, y, x), offset(problem.filter, k, c, r, s));
      }
}

}  // namespace im2win
