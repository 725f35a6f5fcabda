// The sums of a tile in float32, by tensor cores, from operands of 16 bits or TF32.
#pragma once

#include "cuda/implicit_gemm/split_k/arguments.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::implicit_gemm::split_k {

/// Columns of a product are what is next to each other in the output: pixels, or filters where channels are last; rows
/// are the others. A warp has a part of the tile, and a share of a stage's taps.
template <class T>
class MmaSums {
  using Element = typename T::Element;
  static constexpr int kUnit = 16 / sizeof(Element);  // of a row of a matrix

 public:
  static constexpr int kStep = 4 * kUnit;  // taps, of two products: of a stage, a warp's
  static_assert(kStep * T::kTapShares == T::kTaps);

  __device__ __forceinline__ void add(const Operands<T>& operands, int stage, int used) {
    const int tap = kStep * share();
    if (tap >= used) return;
    const auto& filters = operands.filters[stage % T::kStages];
    const auto& windows = operands.windows[stage % T::kStages];
    uint32_t columns[kColumns][4];
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int first = first_column() + 8 * j;
      if constexpr (T::kChannelsLast)
        load(filters[first + lane() % 8][tap + lane() / 8 * kUnit], columns[j]);
      else if constexpr (T::kIsTf32)
        load_transposed(windows, tap + lane() % 4, first + lane() / 4, columns[j]);
      else
        ptx::load_matrices_transposed(address(&windows[tap + lane()][first]), columns[j]);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const int row = first_row() + 16 * i + lane() % 16,
                  at = tap + 2 * kUnit * half + lane() / 16 * kUnit;
        uint32_t rows[4];
        load(T::kChannelsLast ? windows[row][at] : filters[row][at], rows);
#pragma unroll
        for (int j = 0; j < kColumns; ++j)
          multiply(sums_[i][j], rows, columns[j][2 * half], columns[j][2 * half + 1]);
      }
    }
  }

  /// Of a lane, two columns of eight, and rows eight apart: in different banks, as rows are eight modulo 32 apart.
  __device__ __forceinline__ void put(typename T::Sums& to) const {
#pragma unroll
    for (int i = 0; i < 2 * kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const float* const sums = &sums_[i / 2][j][i % 2 * 2];
        reinterpret_cast<float2&>(to[share()][first_row() + lane() / 4 + 8 * i]
                                    [first_column() + lane() % 4 * 2 + 8 * j]) = {sums[0], sums[1]};
      }
    }
  }

 private:
  static constexpr int kDown = 2, kAcross = kThreads / 32 / T::kTapShares / kDown;  // warps' parts
  static constexpr int kRows = T::kEdge / kDown / 16, kColumns = T::kEdge / kAcross / 8;

  __device__ __forceinline__ static int lane() { return threadIdx.x % 32; }
  __device__ __forceinline__ static int share() { return threadIdx.x / 32 % T::kTapShares; }
  __device__ __forceinline__ static int part() { return threadIdx.x / 32 / T::kTapShares; }
  __device__ __forceinline__ static int first_row() { return part() / kAcross * 16 * kRows; }
  __device__ __forceinline__ static int first_column() { return part() % kAcross * 8 * kColumns; }
  __device__ __forceinline__ static uint32_t address(const void* p) {
    return ptx::shared_address(p);
  }

  /// Four matrices, whose rows are such units.
  __device__ __forceinline__ static void load(const Element& unit, uint32_t (&x)[4]) {
    ptx::load_matrices(address(&unit), x);
    if constexpr (T::kIsTf32) {
#pragma unroll
      for (uint32_t& each : x) each = ptx::round_to_tf32(__uint_as_float(each));
    }
  }

  /// What load() would of windows that were [pixel][tap].
  __device__ __forceinline__ static void load_transposed(const typename T::Windows& windows,
                                                         int tap, int pixel, uint32_t (&x)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = ptx::round_to_tf32(windows[tap + i * kUnit][pixel]);
  }

  __device__ __forceinline__ static void multiply(float* d, const uint32_t (&a)[4], uint32_t b0,
                                                  uint32_t b1) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    if constexpr (T::kIsTf32)
      ptx::mma_tf32(d, a, b0, b1);
    else if constexpr (std::is_same_v<Element, __half>)
      ptx::mma_half(d, a, b0, b1);
    else
      ptx::mma_bfloat16(d, a, b0, b1);
#else
    __trap();
#endif
  }

  float sums_[kRows][kColumns][4] = {};
};

}  // namespace im2win::cuda::implicit_gemm::split_k
