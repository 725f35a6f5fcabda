// Products of filters by pixels, on tensor cores (PTX ISA, mma). Their operands lie in registers as memory has them: a lane
// has pixels of a few channels, each of which is a column of another product.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/pointwise_mma/filters.cuh"
#include "cuda/pointwise_mma/row_stream.cuh"
#include "cuda/pointwise_mma/stream.cuh"

namespace im2win::cuda::pointwise_mma {

/// Of sixteen i and eight e, the lane's columns 2 * (lane mod 4) on of filter lane / 4, and of the one eight after it.
template <class T>
using Sums = float[T::kSixteens][T::kEights][4];

template <class T>
__device__ __forceinline__ void multiply(float* d, const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  if constexpr (T::kIsTf32)
    ptx::mma_tf32(d, a, b[0], b[1]);
  else if constexpr (std::is_same_v<typename T::Element, __half>)
    ptx::mma_half(d, a, b[0], b[1]);
  else
    ptx::mma_bfloat16(d, a, b[0], b[1]);
}

/// A lane's part of the columns of a step's products. Half of it is neighbours of its channels, as of filters: which of
/// these are multiplied by which product does not matter.
template <class T>
struct Columns {
  uint32_t x[T::kProducts][T::kEights][2];

  __device__ __forceinline__ explicit Columns(const Words<T>& words) {
#pragma unroll
    for (int i = 0; i < 2 * T::kProducts; ++i)
#pragma unroll
      for (int eight = 0; eight < T::kEights; ++eight) {
        const auto bits = [&](int channel) {
          return reinterpret_cast<const Bits<T>&>(
              words[channel][eight / T::kWord].x[eight % T::kWord]);
        };
        if constexpr (T::kIsTf32)
          x[i / 2][eight][i % 2] = ptx::round_to_tf32(bits(i));
        else
          x[i / 2][eight][i % 2] = bits(2 * i) | uint32_t{bits(2 * i + 1)} << 16;
      }
  }
};

/// Adds a step of a pass, whose filters these are.
template <class T>
__device__ __forceinline__ void add_step(const FilterRows<T>& filters, const Words<T>& words,
                                         Sums<T>& sums) {
  const Columns<T> columns(words);
#pragma unroll
  for (int i = 0; i < T::kSixteens; ++i) {
    uint32_t rows[T::kProducts][4];
    filters.read(i, rows);
#pragma unroll
    for (int product = 0; product < T::kProducts; ++product)
#pragma unroll
      for (int eight = 0; eight < T::kEights; ++eight)
        multiply<T>(sums[i][eight], rows[product], columns.x[product][eight]);
  }
}

/// Of sixteen i of filters and sixteen j of pixels, two products: the lane's columns 2 * (lane mod 4) on of pixel lane / 4,
/// and of the one eight after it.
template <class T>
using RowSums = float[T::kSixteens][T::kPixels / 16][2][4];

/// Likewise, of pixels by filters.
template <class T>
__device__ __forceinline__ void add_step(const FilterRows<T>& filters, const RowWords<T>& words,
                                         RowSums<T>& sums) {
  const auto half = [&](int j, int eight, int i) {
    const uint32_t x = words[j][eight].x[i];
    return T::kIsTf32 ? ptx::round_to_tf32(__uint_as_float(x)) : x;
  };
  uint32_t rows[T::kPixels / 16][T::kProducts][4];
#pragma unroll
  for (int j = 0; j < T::kPixels / 16; ++j)
#pragma unroll
    for (int i = 0; i < 2 * T::kProducts; ++i)
#pragma unroll
      for (int eight = 0; eight < 2; ++eight) rows[j][i / 2][i % 2 * 2 + eight] = half(j, eight, i);
#pragma unroll
  for (int i = 0; i < T::kSixteens; ++i) {
    uint32_t columns[T::kProducts][4];
    filters.read(i, columns);
#pragma unroll
    for (int product = 0; product < T::kProducts; ++product)
#pragma unroll
      for (int second = 0; second < 2; ++second) {
        const uint32_t column[2] = {columns[product][second], columns[product][2 + second]};
#pragma unroll
        for (int j = 0; j < T::kPixels / 16; ++j)
          multiply<T>(sums[i][j][second], rows[j][product], column);
      }
  }
}

}  // namespace im2win::cuda::pointwise_mma
