// The inner loops that multiply pairs of neighbouring bfloat16 by an instruction set's dot products.
#pragma once

#include "cpu/kernels.hpp"

namespace im2win::cpu {

/// Instructions for pairs of bfloat16 take subnormal factors for zeros, and make zeros of subnormal sums. If
/// all magnitudes but zeros are at least this, there are none: factors are multiples of 2^-63, so that products
/// and their sums are of 2^-126, the least normal number.
constexpr float kLeastPlain = 0x1p-56F;

/// Rows of pairs to be joined from those of their first and those of their second numbers, which bfloat16 was
/// converted to.
struct PairRows {
  const float* first;
  const float* second;
  int64_t source_stride;
  BFloat16* target;
  int64_t target_stride;
  int64_t rows;
  int64_t count;  // of pairs: whole vectors
};

/// Rows of numbers that lie where they are.
struct BFloat16Rows {
  const BFloat16* first;
  int64_t stride;
  int64_t rows;
  int64_t count;
};

/// The kernels that multiply pairs of bfloat16, with vectors of sums as long as AVX-512's.
struct PairKernels {
  WindowSums<BFloat16> sum_pixels;
  /// The same bits, and the right ones with tiny factors, too: each product is summed in float32.
  WindowSums<BFloat16> sum_any_pixels;
  void (*load)(const Rows<BFloat16, BFloat16>& rows);
  void (*store)(const Rows<float, BFloat16>& rows);
  Content (*join)(const PairRows& rows);
  Content (*examine)(const BFloat16Rows& rows);
};

#if defined(IM2WIN_X86)
extern const PairKernels avx512_bf16_kernels;
#endif

/// Those of choose_isa(), null if it has none; throws what that throws.
const PairKernels* choose_pair_kernels();

}  // namespace im2win::cpu
