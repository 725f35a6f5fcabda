// 64-bit arithmetic that fails instead of wrapping round.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "status.hpp"

namespace im2win {

/// The product; INVALID_ARGUMENT, naming `what`, where it does not fit 64 bits.
inline int64_t checked_multiply(int64_t a, int64_t b, const char* what) {
  int64_t product = 0;
  require(!__builtin_mul_overflow(a, b, &product), what, " overflows: ", a, " * ", b,
          " does not fit 64 bits");
  return product;
}

inline int64_t checked_add(int64_t a, int64_t b, const char* what) {
  int64_t sum = 0;
  require(!__builtin_add_overflow(a, b, &sum), what, " overflows: ", a, " + ", b,
          " does not fit 64 bits");
  return sum;
}

/// Whether the product of factors, each at least 1, is above `most`. Cannot overflow.
constexpr bool exceeds(int64_t most, std::initializer_list<int64_t> factors) {
  for (int64_t factor : factors) most /= factor;
  return most == 0;
}

constexpr int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0); }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace im2win
