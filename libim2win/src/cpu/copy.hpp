// Copies with conversion between tensors and what is computed in, for kernels_template.hpp alone.
// The compiler makes vectors of these loops: they have no branches.
#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>
#endif
#include <type_traits>
#include <utility>

#include "cpu/vector.hpp"

namespace im2win::cpu {
namespace {

template <class Scalar>
inline Scalar convert(Scalar value, Scalar) {
  return value;
}

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

/// Converts as many elements as there are instructions for, and returns how many: whole vectors or, past the caches to
/// a target that begins with a line of these, whole lines.
template <bool kStreams = false, class Source, class Target>
inline int64_t convert_vectors(const Source*, Target*, int64_t) {
  return 0;
}

#if defined(__AVX512F__)
// Of their forms the masked ones, as GCC 12 warns of its own header in the others.
constexpr __mmask16 kAllSixteen = 0xffff;

inline int64_t convert_vectors(const Float16* source, float* target, int64_t count) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + i));
    _mm512_storeu_ps(target + i, _mm512_maskz_cvtph_ps(kAllSixteen, halves));
  }
  return i;
}

/// Of 16-bit elements.
template <bool kStreams>
constexpr int64_t kStoredTogether = kStreams ? 32 : 16;

template <bool kStreams>
inline void store_halves(void* target, __m256i halves) {
  auto* to = static_cast<__m256i*>(target);
  kStreams ? _mm256_stream_si256(to, halves) : _mm256_storeu_si256(to, halves);
}

template <bool kStreams = false>
inline int64_t convert_vectors(const float* source, Float16* target, int64_t count) {
  const int64_t end = count / kStoredTogether<kStreams> * kStoredTogether<kStreams>;
  for (int64_t i = 0; i < end; i += 16)
    store_halves<kStreams>(
        target + i,
        _mm512_maskz_cvtps_ph(kAllSixteen, _mm512_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT));
  return end;
}
#endif

#if defined(__AVX512BF16__)
/// The instruction takes subnormal numbers for zeros: where there are any, nothing is converted.
template <bool kStreams = false>
inline int64_t convert_vectors(const float* source, BFloat16* target, int64_t count) {
  constexpr int kSubnormal = 0x20;
  const int64_t end = count / kStoredTogether<kStreams> * kStoredTogether<kStreams>;
  __mmask16 subnormal = 0;
  for (int64_t i = 0; i < end; i += 16) {
    const __m512 values = _mm512_loadu_ps(source + i);
    subnormal |= _mm512_fpclass_ps_mask(values, kSubnormal);
    store_halves<kStreams>(target + i, (__m256i)_mm512_cvtneps_pbh(values));
  }
  return subnormal == 0 ? end : 0;
}
#endif

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
    for (int64_t i = convert_vectors(source, target, count); i < count; ++i)
      target[i] = convert(source[i], Target{});
  } else if (step == 2) {
    for (int64_t i = 0; i < count; ++i) target[i] = convert(source[2 * i], Target{});
  } else {
    for (int64_t i = 0; i < count; ++i) target[i] = convert(source[i * step], Target{});
  }
}

template <class Scalar, int kSize>
struct BlockOf {
  typedef Scalar Row __attribute__((vector_size(kSize * sizeof(Scalar))));
};

/// Swaps what two rows of a block, kStep apart, have to swap to be transposed.
template <int kStep, class Scalar, int kSize, int... kIndex>
inline void swap_halves(typename BlockOf<Scalar, kSize>::Row& upper,
                        typename BlockOf<Scalar, kSize>::Row& lower,
                        std::integer_sequence<int, kIndex...>) {
  const auto row = upper;
#if __has_builtin(__builtin_shufflevector)
  upper =
      __builtin_shufflevector(row, lower, (kIndex & kStep ? kSize + kIndex - kStep : kIndex)...);
  lower =
      __builtin_shufflevector(row, lower, (kIndex & kStep ? kSize + kIndex : kIndex + kStep)...);
#else  // GCC before 12
  using Short = std::conditional_t<sizeof(Scalar) == 2, int16_t, int32_t>;
  using Index = std::conditional_t<sizeof(Scalar) == 8, int64_t, Short>;
  using Indices = typename BlockOf<Index, kSize>::Row;
  const auto other = lower;
  const Indices even = {(kIndex & kStep ? kSize + kIndex - kStep : kIndex)...};
  const Indices odd = {(kIndex & kStep ? kSize + kIndex : kIndex + kStep)...};
  upper = __builtin_shuffle(row, other, even);
  lower = __builtin_shuffle(row, other, odd);
#endif
}

template <int kStep, class Scalar, int kSize>
inline void transpose_rows(typename BlockOf<Scalar, kSize>::Row (&rows)[kSize]) {
#pragma GCC unroll 16
  for (int i = 0; i < kSize; ++i)
    if ((i & kStep) == 0)
      swap_halves<kStep, Scalar, kSize>(rows[i], rows[i + kStep],
                                        std::make_integer_sequence<int, kSize>());
  if constexpr (2 * kStep < kSize) transpose_rows<2 * kStep, Scalar, kSize>(rows);
}

/// A block's row, from and to memory.
template <int kSize, class Source, class Target>
inline void convert_row(const Source* source, Target* target) {
  if constexpr (std::is_same_v<Source, Target>) {
    __builtin_memcpy(target, source, kSize * sizeof(Source));
  } else {
#pragma GCC unroll 1
    for (int64_t i = convert_vectors(source, target, kSize); i < kSize; ++i)
      target[i] = convert(source[i], Target{});
  }
}

/// The transpose of kSize by kSize elements.
template <int kSize, class Source, class Target>
inline void transpose_block(const Source* source, int64_t step, Target* target, int64_t stride) {
  using Scalar = std::conditional_t<sizeof(Source) >= sizeof(Target), Source, Target>;
  typename BlockOf<Scalar, kSize>::Row rows[kSize];
#pragma GCC unroll 16
  for (int i = 0; i < kSize; ++i)
    convert_row<kSize>(source + i * step, reinterpret_cast<Scalar*>(&rows[i]));
  transpose_rows<1, Scalar, kSize>(rows);
#pragma GCC unroll 16
  for (int i = 0; i < kSize; ++i)
    convert_row<kSize>(reinterpret_cast<const Scalar*>(&rows[i]), target + i * stride);
}

constexpr int64_t kLineBytes = 64;  // of a cache

template <int kSize, bool kAreWritten = false, class Scalar>
inline void prefetch_rows(const Scalar* first, int64_t stride) {
  for (int i = 0; i < kSize; ++i) __builtin_prefetch(first + i * stride, kAreWritten);
}

template <int kSize, class Source, class Target>
void transpose(const Rows<Source, Target>& rows);

template <class Scalar>
inline bool starts_line(const Scalar* address) {
  return reinterpret_cast<uintptr_t>(address) % kLineBytes == 0;
}

/// Whole lines, or, with a conversion for which there are no instructions, none.
template <class Source, class Target>
inline int64_t stream_lines(const Source* source, Target* target, int64_t count) {
  if constexpr (!std::is_same_v<Source, Target>) {
    return convert_vectors<true>(source, target, count);
  } else {
    constexpr int64_t kElements = VectorOf<Target>::kElements;
    constexpr int64_t kLine = kLineBytes / sizeof(Target);
    const int64_t end = count / kLine * kLine;
    for (int64_t i = 0; i < end; i += kElements) stream(target + i, load(source + i));
    return end;
  }
}

/// A row past the caches, but for the parts of lines at its ends.
template <class Source, class Target>
inline void stream_row(const Source* source, Target* target, int64_t count) {
  int64_t i = 0;
  for (; i < count && !starts_line(target + i); ++i) target[i] = convert(source[i], Target{});
  i += stream_lines(source + i, target + i, count - i);
  copy_row(source + i, 1, target + i, count - i);
}

/// Whether rows have parts of lines at the ends of all of them, at most: what is written by lines and by parts of them
/// in turns takes longer than either.
template <class Source, class Target>
inline bool has_whole_lines(const Rows<Source, Target>& rows) {
  constexpr int64_t kLine = kLineBytes / sizeof(Target);
  return rows.rows == 1 ||
         (starts_line(rows.target) && rows.target_stride % kLine == 0 && rows.count % kLine == 0);
}

constexpr int64_t kMostStreamed = 256;  // elements of a row

/// The transpose past the caches: by a buffer, as only whole lines pass by them, and rows need not
/// be aligned alike.
template <int kSize, class Scalar>
inline void stream_transpose(const Rows<Scalar, Scalar>& rows) {
  alignas(kMaxVectorBytes) Scalar buffer[kSize * kMostStreamed];
  for (int64_t r = 0; r < rows.rows; r += kSize) {
    const int64_t row = r + kSize <= rows.rows ? r : rows.rows - kSize;
    Scalar* target = rows.target + row * rows.target_stride;
    for (int i = 0; i < kSize; ++i) {
      const Scalar* end = target + i * rows.target_stride + rows.count;
      if (!starts_line(end)) __builtin_prefetch(end);  // of a line to be written in part
    }
    transpose<kSize, Scalar, Scalar>(
        {rows.source + row, 1, rows.source_step, buffer, kMostStreamed, kSize, rows.count});
    for (int i = 0; i < kSize; ++i)
      stream_row(buffer + i * kMostStreamed, target + i * rows.target_stride, rows.count);
  }
}

/// Rows whose elements lie side by side in the source. Blocks at an edge overlap the ones before. Parts of
/// longer rows, which calls to come continue, are too many streams for a processor to see what is written
/// next: it is asked for.
template <int kSize, class Source, class Target>
void transpose(const Rows<Source, Target>& rows) {
  constexpr int64_t kLine = kLineBytes / sizeof(Source);  // elements of a line of the cache
  constexpr int64_t kTargetLine = kLineBytes / sizeof(Target);
  if constexpr (std::is_same_v<Source, Target> && kSize * sizeof(Target) == IM2WIN_VECTOR_BYTES) {
    if (rows.streams && rows.count <= kMostStreamed) return stream_transpose<kSize>(rows);
  }
  const bool are_parts = rows.target_stride > rows.count;
  for (int64_t i = 0; i < rows.count; i += kSize) {
    const int64_t element = i + kSize <= rows.count ? i : rows.count - kSize;
    for (int64_t r = 0; r < rows.rows; r += kSize) {
      const int64_t row = r + kSize <= rows.rows ? r : rows.rows - kSize;
      const Source* source = rows.source + row + element * rows.source_step;
      Target* target = rows.target + row * rows.target_stride + element;
      if (r % kLine == 0)
        prefetch_rows<kSize>(r + kLine < rows.rows
                                 ? source + kLine
                                 : rows.source + (element + kSize) * rows.source_step,
                             rows.source_step);
      if (are_parts && i % kTargetLine == 0)
        prefetch_rows<kSize, true>(target + 2 * kTargetLine, rows.target_stride);
      transpose_block<kSize>(source, rows.source_step, target, rows.target_stride);
    }
  }
}

template <class Source, class Target>
void copy_rows(const Rows<Source, Target>& rows) {
  constexpr int kWidest = sizeof(Source) > sizeof(Target) ? sizeof(Source) : sizeof(Target);
  constexpr int kElements = IM2WIN_VECTOR_BYTES / kWidest;
  constexpr int kSize = kElements < 16 ? kElements : 16;  // for registers to hold the block
  constexpr int kSmallSize = 4;
  if (rows.source_stride == 1 && rows.source_step != 1) {
    const int64_t least = rows.rows < rows.count ? rows.rows : rows.count;
    if (kSize > kSmallSize && least >= kSize) return transpose<kSize>(rows);
    if (least >= kSmallSize) return transpose<kSmallSize>(rows);
  }
  const bool streams = rows.streams && rows.source_step == 1 && has_whole_lines(rows);
  for (int64_t row = 0; row < rows.rows; ++row) {
    const Source* source = rows.source + row * rows.source_stride;
    Target* target = rows.target + row * rows.target_stride;
    if (streams) {
      stream_row(source, target, rows.count);
    } else {
      copy_row(source, rows.source_step, target, rows.count);
    }
  }
}

}  // namespace
}  // namespace im2win::cpu
