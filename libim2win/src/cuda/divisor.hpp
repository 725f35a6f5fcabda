// Division by a number that is known before launch: a multiplication and a shift where 31 bits do.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__CUDACC__)
#define IM2WIN_DIVISOR_FUNCTION __host__ __device__ __forceinline__
#define IM2WIN_DIVISOR_RARE_FUNCTION inline __host__ __device__ __noinline__
#else
#define IM2WIN_DIVISOR_FUNCTION inline
#define IM2WIN_DIVISOR_RARE_FUNCTION inline
#endif

namespace im2win::cuda {

template <class Index>
struct QuotientRemainder {
  Index quotient;
  Index remainder;
};

/// Out of line: it is long, and rarely called.
IM2WIN_DIVISOR_RARE_FUNCTION int64_t divide_wide(int64_t n, int64_t divisor) {
  return static_cast<int64_t>(static_cast<uint64_t>(n) / static_cast<uint64_t>(divisor));
}

/// Divides numbers >= 0 by `divisor` >= 1. Plain data: it is passed to kernels as it is.
///
/// With l = ceil(log2 d) and m = ceil(2^(31+l) / d), which fits 32 bits, n / d = (n * m) >> (31+l)
/// for every n < 2^31: m * d exceeds 2^(31+l) by less than d <= 2^l, so the product's error is
/// below 2^(31+l) / d (Granlund and Montgomery, "Division by invariant integers using
/// multiplication"). A divisor of 2^31 or more has m = 0: the quotient of such an n is 0.
struct Divisor {
  int64_t divisor;
  uint32_t magic;
  uint32_t shift;

  explicit Divisor(int64_t d) : divisor(d), magic(0), shift(0) {
    if (d >= int64_t{1} << 31) return;
    shift = 31 + static_cast<uint32_t>(std::bit_width(static_cast<uint64_t>(d - 1)));
    magic = static_cast<uint32_t>(((uint64_t{1} << shift) - 1) / static_cast<uint64_t>(d) + 1);
  }

  IM2WIN_DIVISOR_FUNCTION int32_t quotient(int32_t n) const {
    return static_cast<int32_t>((uint64_t{static_cast<uint32_t>(n)} * magic) >> shift);
  }

  IM2WIN_DIVISOR_FUNCTION int64_t quotient(int64_t n) const {
    if (n >> 31 == 0) return quotient(static_cast<int32_t>(n));
    return divide_wide(n, divisor);
  }

  template <class Index>
  IM2WIN_DIVISOR_FUNCTION QuotientRemainder<Index> divide(Index n) const {
    const Index q = quotient(n);
    return {q, n - q * static_cast<Index>(divisor)};
  }
};

}  // namespace im2win::cuda

#undef IM2WIN_DIVISOR_FUNCTION
#undef IM2WIN_DIVISOR_RARE_FUNCTION
