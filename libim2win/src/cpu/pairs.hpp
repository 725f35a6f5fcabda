// Pairs of bfloat16: joined, examined, multiplied. For kernels_avx512_bf16.cpp alone.
#pragma once

#include <immintrin.h>

#include "cpu/pair_kernels.hpp"
#include "cpu/vector.hpp"

namespace im2win::cpu {
namespace {

constexpr uint16_t kMagnitudeBits = 0x7fff;
constexpr uint16_t kInfinityBits = 0x7f80;
constexpr uint16_t kLeastPlainBits = __builtin_bit_cast(uint32_t, kLeastPlain) >> 16;

/// Of magnitudes, as integers, which are ordered alike: the least one less 1, for which zeros are the largest,
/// and the largest.
struct Extremes {
  Vector<uint16_t> least = ~Vector<uint16_t>{};
  Vector<uint16_t> largest = {};

  void add(Vector<uint16_t> bits) {
    const Vector<uint16_t> magnitudes = bits & kMagnitudeBits;
    const Vector<uint16_t> below = magnitudes - 1;
    least = below < least ? below : least;
    largest = largest < magnitudes ? magnitudes : largest;
  }

  Content content() const {
    Content content = {};
    for (int64_t lane = 0; lane < VectorOf<uint16_t>::kElements; ++lane) {
      content.has_special |= largest[lane] >= kInfinityBits;
      content.has_tiny |= least[lane] < kLeastPlainBits - 1;
    }
    return content;
  }
};

Content examine(const BFloat16Rows& rows) {
  constexpr int64_t kElements = VectorOf<uint16_t>::kElements;
  Extremes extremes;
  for (int64_t row = 0; row < rows.rows; ++row) {
    const BFloat16* values = rows.first + row * rows.stride;
    int64_t i = 0;
    for (; i + kElements <= rows.count; i += kElements) extremes.add(load(&values[i].bits));
    if (i == rows.count) continue;
    Vector<uint16_t> rest = {};
    __builtin_memcpy(&rest, values + i, static_cast<size_t>(rows.count - i) * sizeof(BFloat16));
    extremes.add(rest);
  }
  return extremes.content();
}

Content join_rows(const PairRows& rows) {
  Extremes extremes;
  for (int64_t row = 0; row < rows.rows; ++row) {
    const float* first = rows.first + row * rows.source_stride;
    const float* second = rows.second + row * rows.source_stride;
    BFloat16* target = rows.target + row * rows.target_stride;
    for (int64_t i = 0; i < rows.count; i += VectorOf<float>::kElements) {
      const auto low = (Vector<uint32_t>)load(first + i) >> 16;
      const auto high = (Vector<uint32_t>)load(second + i) & 0xffff0000U;
      const auto pairs = (Vector<uint16_t>)(low | high);
      extremes.add(pairs);
      store(&target[2 * i].bits, pairs);
    }
  }
  return extremes.content();
}

/// As integers, of which there are vectors.
void load_rows(const Rows<BFloat16, BFloat16>& rows) {
  copy_rows<uint16_t, uint16_t>({reinterpret_cast<const uint16_t*>(rows.source), rows.source_stride,
                                 rows.source_step, reinterpret_cast<uint16_t*>(rows.target),
                                 rows.target_stride, rows.rows, rows.count});
}

inline Vector<uint32_t> broadcast_pair(const BFloat16* pair) {
  uint32_t word;
  __builtin_memcpy(&word, pair, sizeof word);
  return broadcast(word);
}

/// By the instruction: the second product is added first, each with one rounding.
struct MultiplyPairs {
  using Factor = BFloat16;
  static Vector<uint32_t> spread(const BFloat16* pair) { return broadcast_pair(pair); }
  static Vector<float> add(Vector<float> sum, Vector<uint32_t> pair, const BFloat16* filters) {
    return _mm512_dpbf16_ps(sum, (__m512bh)load(&filters->bits), (__m512bh)pair);
  }
};

/// In float32: the same bits, but for what is subnormal.
struct MultiplyAnyPairs {
  using Factor = BFloat16;
  struct Halves {
    Vector<float> first, second;
  };
  static Halves halves(Vector<uint32_t> pairs) {
    return {(Vector<float>)(pairs << 16), (Vector<float>)(pairs & 0xffff0000U)};
  }
  static Halves spread(const BFloat16* pair) { return halves(broadcast_pair(pair)); }
  static Vector<float> add(Vector<float> sum, const Halves& pair, const BFloat16* filters) {
    const Halves weights = halves((Vector<uint32_t>)load(&filters->bits));
    sum = _mm512_fmadd_ps(weights.second, pair.second, sum);
    return _mm512_fmadd_ps(weights.first, pair.first, sum);
  }
};

}  // namespace
}  // namespace im2win::cpu
