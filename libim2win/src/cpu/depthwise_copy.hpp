// Copies with conversion between tensors and what is computed in, for depthwise_template.hpp alone.
// The compiler makes vectors of these loops: they have no branches.
#pragma once

#include "cpu/depthwise_vector.hpp"

namespace im2win::cpu {
namespace {

inline double convert(double value, double) { return value; }
inline float convert(float value, float) { return value; }

inline float convert(BFloat16 value, float) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(value.bits) << 16);
}

inline float convert(Float16 value, float) {
  const uint32_t magnitude = value.bits & 0x7fffU;
  const uint32_t word = (magnitude << 13) + 0x38000000U;  // the exponent rebiased by 127 - 15
  // A subnormal is an integer times 2^-24; Inf and NaN have the largest exponent in both types.
  const float subnormal = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24F;
  const uint32_t wide = magnitude >= 0x7c00U ? word + 0x38000000U
                        : magnitude < 0x400U ? __builtin_bit_cast(uint32_t, subnormal)
                                             : word;
  return __builtin_bit_cast(float, wide | static_cast<uint32_t>(value.bits & 0x8000U) << 16);
}

inline BFloat16 convert(float value, BFloat16) {
  const auto word = __builtin_bit_cast(uint32_t, value);
  const uint32_t rounded = word + 0x7fffU + ((word >> 16) & 1U);
  const bool is_nan = (word & 0x7fffffffU) > 0x7f800000U;
  BFloat16 result;
  result.bits = static_cast<uint16_t>((is_nan ? word | 0x400000U : rounded) >> 16);
  return result;
}

inline Float16 convert(float value, Float16) {
  const auto word = __builtin_bit_cast(uint32_t, value);
  const uint32_t magnitude = word & 0x7fffffffU;
  const uint32_t normal = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  // Below 2^-14: adding 0.5 aligns and rounds the mantissa.
  const float aligned = __builtin_bit_cast(float, magnitude) + 0.5F;
  const uint32_t subnormal = __builtin_bit_cast(uint32_t, aligned) - 0x3f000000U;
  const uint32_t finite = magnitude < 0x38800000U ? subnormal : normal;
  const uint32_t infinite = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
  const uint32_t wide = magnitude >= 0x477ff000U ? infinite : finite;  // rounds to 65536 or more
  Float16 result;
  result.bits = static_cast<uint16_t>(wide | ((word >> 16) & 0x8000U));
  return result;
}

/// Fewer elements than two blocks of kElements, and at least one.
template <int64_t kElements, class Scalar>
inline void copy_two_blocks(const Scalar* source, Scalar* target, int64_t count) {
  char first[kElements * sizeof(Scalar)];
  char last[kElements * sizeof(Scalar)];
  __builtin_memcpy(first, source, sizeof first);
  __builtin_memcpy(last, source + count - kElements, sizeof last);
  __builtin_memcpy(target, first, sizeof first);
  __builtin_memcpy(target + count - kElements, last, sizeof last);
}

/// Most rows are short: a few moves that overlap, no loop of single elements.
template <class Scalar>
inline void copy_plain_row(const Scalar* source, Scalar* target, int64_t count) {
  for (; count >= 32; source += 16, target += 16, count -= 16)
    __builtin_memcpy(target, source, 16 * sizeof(Scalar));
  if (count >= 16) return copy_two_blocks<16>(source, target, count);
  if (count >= 8) return copy_two_blocks<8>(source, target, count);
  if (count >= 4) return copy_two_blocks<4>(source, target, count);
  for (int64_t i = 0; i < count; ++i) target[i] = source[i];
}

template <class Source, class Target>
inline void copy_row(const Source* __restrict source, int64_t step, Target* __restrict target,
                     int64_t count) {
  if constexpr (sizeof(Source) == sizeof(Target)) {
    if (step == 1) return copy_plain_row(source, target, count);
  }
  if (step == 1) {
    for (int64_t i = 0; i < count; ++i) target[i] = convert(source[i], Target{});
  } else if (step == 2) {
    for (int64_t i = 0; i < count; ++i) target[i] = convert(source[2 * i], Target{});
  } else {
    for (int64_t i = 0; i < count; ++i) target[i] = convert(source[i * step], Target{});
  }
}

constexpr int64_t kTile = 4;

/// The transpose of kTile by kTile elements.
template <class Scalar>
inline void transpose_tile(const Scalar* source, int64_t step, Scalar* target, int64_t stride) {
#if __has_builtin(__builtin_shufflevector)
  typedef Scalar Four __attribute__((vector_size(kTile * sizeof(Scalar))));
  Four from[kTile];
  for (int64_t i = 0; i < kTile; ++i) __builtin_memcpy(&from[i], source + i * step, sizeof(Four));
  const Four low_02 = __builtin_shufflevector(from[0], from[2], 0, 4, 1, 5);
  const Four high_02 = __builtin_shufflevector(from[0], from[2], 2, 6, 3, 7);
  const Four low_13 = __builtin_shufflevector(from[1], from[3], 0, 4, 1, 5);
  const Four high_13 = __builtin_shufflevector(from[1], from[3], 2, 6, 3, 7);
  const Four to[kTile] = {__builtin_shufflevector(low_02, low_13, 0, 4, 1, 5),
                          __builtin_shufflevector(low_02, low_13, 2, 6, 3, 7),
                          __builtin_shufflevector(high_02, high_13, 0, 4, 1, 5),
                          __builtin_shufflevector(high_02, high_13, 2, 6, 3, 7)};
  for (int64_t i = 0; i < kTile; ++i) __builtin_memcpy(target + i * stride, &to[i], sizeof(Four));
#else  // GCC before 12
  for (int64_t i = 0; i < kTile; ++i)
    for (int64_t j = 0; j < kTile; ++j) target[j * stride + i] = source[i * step + j];
#endif
}

/// Rows whose elements lie side by side in the source. Tiles at an edge overlap the ones before.
template <class Scalar>
inline void transpose(const Rows<Scalar, Scalar>& rows) {
  constexpr int64_t kLine = 64 / sizeof(Scalar);  // elements of a line of the cache
  for (int64_t i = 0; i < rows.count; i += kTile) {
    const int64_t element = i + kTile <= rows.count ? i : rows.count - kTile;
    for (int64_t r = 0; r < rows.rows; r += kTile) {
      const int64_t row = r + kTile <= rows.rows ? r : rows.rows - kTile;
      if (r % kLine == 0) {
        for (int64_t ahead = kTile; ahead < 2 * kTile; ++ahead)
          __builtin_prefetch(rows.source + row + (element + ahead) * rows.source_step);
      }
      transpose_tile(rows.source + row + element * rows.source_step, rows.source_step,
                     rows.target + row * rows.target_stride + element, rows.target_stride);
    }
  }
}

template <class Source, class Target>
void copy_rows(const Rows<Source, Target>& rows) {
  if constexpr (sizeof(Source) == sizeof(Target)) {
    if (rows.source_stride == 1 && rows.source_step != 1 && rows.rows >= kTile &&
        rows.count >= kTile)
      return transpose(rows);
  }
  for (int64_t row = 0; row < rows.rows; ++row)
    copy_row(rows.source + row * rows.source_stride, rows.source_step,
             rows.target + row * rows.target_stride, rows.count);
}

}  // namespace
}  // namespace im2win::cpu
