// The sums of a tile in float32, by FMAs.
#pragma once

#include "cuda/implicit_gemm/split_k/arguments.cuh"

namespace im2win::cuda::implicit_gemm::split_k {

/// A warp has 32 rows and columns of the tile, a lane eight by four of them, and a share of a stage's taps, four at a
/// time. Columns are what is next to each other in the output: pixels, or filters where channels are last; rows are
/// the others.
///
/// Words of four taps are of rows that are four apart, and words apart in banks, so that a quarter of a warp reads four
/// rows of operands at a time, or, of filters as columns, eight, from different banks. Words of four pixels follow each
/// other.
template <class T>
class FmaSums {
 public:
  static constexpr int kStep = 4 * T::kTapShares;  // taps

  __device__ __forceinline__ void add(const Operands<T>& operands, int stage, int used) {
    const auto& filters = operands.filters[stage % T::kStages];
    const auto& windows = operands.windows[stage % T::kStages];
#pragma unroll 1
    for (int tap = 4 * share(); tap < used; tap += kStep) {
      float columns[4][kColumns];  // of each tap
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (T::kChannelsLast) {
          const float4 taps = word(filters[column(i)][tap]);
          columns[0][i] = taps.x, columns[1][i] = taps.y, columns[2][i] = taps.z,
          columns[3][i] = taps.w;
        } else {
          const float4 pixels = word(windows[tap + i][column(0)]);
          columns[i][0] = pixels.x, columns[i][1] = pixels.y, columns[i][2] = pixels.z,
          columns[i][3] = pixels.w;
        }
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const float4 taps = word(T::kChannelsLast ? windows[row(i)][tap] : filters[row(i)][tap]);
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          float& sum = sums_[i][j];
          sum = fmaf(taps.x, columns[0][j], sum);
          sum = fmaf(taps.y, columns[1][j], sum);
          sum = fmaf(taps.z, columns[2][j], sum);
          sum = fmaf(taps.w, columns[3][j], sum);
        }
      }
    }
  }

  __device__ __forceinline__ void put(typename T::Sums& to) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) to[share()][row(i)][column(j)] = sums_[i][j];
    }
  }

 private:
  static constexpr int kRows = 8, kColumns = 4;
  static constexpr int kAcross = T::kEdge / 32;  // warps' parts of the tile

  __device__ __forceinline__ static int lane() { return threadIdx.x % 32; }
  __device__ __forceinline__ static int share() { return threadIdx.x / 32 % T::kTapShares; }
  __device__ __forceinline__ static int part() { return threadIdx.x / 32 / T::kTapShares; }
  __device__ __forceinline__ static int row(int i) {
    return part() / kAcross * 32 + lane() % 4 + 4 * i;
  }
  __device__ __forceinline__ static int column(int j) {
    return part() % kAcross * 32 + (T::kChannelsLast ? lane() / 4 + 8 * j : lane() / 4 * 4 + j);
  }

  __device__ __forceinline__ static float4 word(const float& first) {
    return reinterpret_cast<const float4&>(first);
  }

  float sums_[kRows][kColumns] = {};
};

}  // namespace im2win::cuda::implicit_gemm::split_k
