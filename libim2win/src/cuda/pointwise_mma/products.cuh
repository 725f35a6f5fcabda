// Products of filters by pixels, on tensor cores (PTX ISA, mma). Their operands lie in registers as memory has them: a lane
// has pixels of a few channels, each of which is a column of another product.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/pointwise_mma/filters.cuh"
#include "cuda/pointwise_mma/row_stream.cuh"
#include "cuda/pointwise_mma/stream.cuh"
#include "cuda/pointwise_mma/thirds.cuh"

namespace im2win::cuda::pointwise_mma {

/// Fragments that are multiplied by each other.
struct FragmentPair {
  int filters, pixels;
};

template <class T>
__device__ __forceinline__ void multiply(float* d, const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  if constexpr (T::kIsTf32)
    ptx::mma_tf32(d, a, b[0], b[1]);
  else if constexpr (std::is_same_v<typename T::Element, __half>)
    ptx::mma_half(d, a, b[0], b[1]);
  else
    ptx::mma_bfloat16(d, a, b[0], b[1]);
}

/// Calls multiply_all(pair, sums) for each pair. Thirds have sums of a step to themselves, which are then added, as tensor
/// cores cut off what does not fit a sum: the least products first, whose sums are small.
template <class T, class Sums, class MultiplyAll>
__device__ __forceinline__ void add_products(Sums& sums, const MultiplyAll& multiply_all) {
  if constexpr (T::kHasThirds) {
    constexpr FragmentPair kPairs[] = {{1, 1}, {0, 2}, {2, 0}, {0, 1}, {1, 0}, {0, 0}};
    Sums of_step = {};
#pragma unroll
    for (const FragmentPair& pair : kPairs) multiply_all(pair, of_step);
    constexpr int kSums = sizeof(Sums) / sizeof(float);
#pragma unroll
    for (int i = 0; i < kSums; ++i)
      reinterpret_cast<float*>(&sums)[i] += reinterpret_cast<const float*>(&of_step)[i];
  } else {
#pragma unroll
    for (int i = 0; i < T::kFragments; ++i) multiply_all(FragmentPair{i, i}, sums);
  }
}

/// Of a row or a column, the lane's channels: which of these are multiplied by which product does not matter.
template <class T>
__device__ __forceinline__ void to_fragments(const uint32_t (&words)[T::kLaneWords],
                                             uint32_t (&x)[T::kFragments][2], Magnitudes& seen) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if constexpr (T::kHasThirds) {
      const float first = __uint_as_float(words[2 * i]), second = __uint_as_float(words[2 * i + 1]);
      seen.add(first, second);
      uint32_t thirds[3];
      split(first, second, thirds);
#pragma unroll
      for (int third = 0; third < 3; ++third) x[third][i] = thirds[third];
    } else if constexpr (T::kIsTf32) {
#pragma unroll
      for (int eight = 0; eight < 2; ++eight)
        x[eight][i] = ptx::round_to_tf32(__uint_as_float(words[2 * eight + i]));
    } else {
      x[0][i] = words[i];
    }
  }
}

/// Of sixteen i and eight e, the lane's columns 2 * (lane mod 4) on of filter lane / 4, and of the one eight after it.
template <class T>
struct Sums {
  float x[T::kSixteens][T::kEights][4];
};

/// A lane's part of the columns of a step's products.
template <class T>
struct Columns {
  uint32_t x[T::kEights][T::kFragments][2];

  __device__ __forceinline__ Columns(const Words<T>& words, Magnitudes& seen) {
#pragma unroll
    for (int eight = 0; eight < T::kEights; ++eight) {
      const auto bits = [&](int channel) {
        return uint32_t{
            reinterpret_cast<const std::conditional_t<T::kBytes == 4, uint32_t, uint16_t>&>(
                words[channel][eight / T::kWord].x[eight % T::kWord])};
      };
      uint32_t column[T::kLaneWords];
#pragma unroll
      for (int i = 0; i < T::kLaneWords; ++i)
        column[i] = T::kBytes == 4 ? bits(i) : bits(2 * i) | bits(2 * i + 1) << 16;
      to_fragments<T>(column, x[eight], seen);
    }
  }
};

/// Adds a step of a pass, whose filters these are.
template <class T>
__device__ __forceinline__ void add_step(const FilterFragments<T>& filters, const Words<T>& words,
                                         Sums<T>& sums, Magnitudes& seen) {
  const Columns<T> columns(words, seen);
#pragma unroll
  for (int i = 0; i < T::kSixteens; ++i) {
    uint32_t rows[T::kFragments][4];
    filters.read(i, rows);
    add_products<T>(sums.x[i], [&](const FragmentPair& pair, auto& own) {
#pragma unroll
      for (int eight = 0; eight < T::kEights; ++eight)
        multiply<T>(own[eight], rows[pair.filters], columns.x[eight][pair.pixels]);
    });
  }
}

/// Of sixteen i of filters and sixteen j of pixels, two products: the lane's columns 2 * (lane mod 4) on of pixel lane / 4,
/// and of the one eight after it.
template <class T>
struct RowSums {
  float x[T::kSixteens][T::kPixels / 16][2][4];
};

/// Likewise, of pixels by filters.
template <class T>
__device__ __forceinline__ void add_step(const FilterFragments<T>& filters,
                                         const RowWords<T>& words, RowSums<T>& sums,
                                         Magnitudes& seen) {
  uint32_t rows[T::kPixels / 16][T::kFragments][4];
#pragma unroll
  for (int j = 0; j < T::kPixels / 16; ++j)
#pragma unroll
    for (int eight = 0; eight < 2; ++eight) {
      uint32_t row[T::kFragments][2];
      to_fragments<T>(words[j][eight].x, row, seen);
#pragma unroll
      for (int i = 0; i < 2 * T::kFragments; ++i)
        rows[j][i / 2][i % 2 * 2 + eight] = row[i / 2][i % 2];
    }
#pragma unroll
  for (int i = 0; i < T::kSixteens; ++i) {
    uint32_t columns[T::kFragments][4];
    filters.read(i, columns);
    add_products<T>(sums.x[i], [&](const FragmentPair& pair, auto& own) {
#pragma unroll
      for (int second = 0; second < 2; ++second) {
        const uint32_t(&both)[4] = columns[pair.filters];
        const uint32_t column[2] = {both[2 * second], both[2 * second + 1]};
#pragma unroll
        for (int j = 0; j < T::kPixels / 16; ++j)
          multiply<T>(own[j][second], rows[j][pair.pixels], column);
      }
    });
  }
}

}  // namespace im2win::cuda::pointwise_mma
