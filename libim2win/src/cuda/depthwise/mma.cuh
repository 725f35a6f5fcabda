// Depthwise convolution by tensor cores: how a warp goes down its strips, and whether zeros beside
// the window may have made NaN of a sum.
#pragma once

#include "cuda/depthwise/activation.cuh"
#include "cuda/depthwise/pair.cuh"
#include "cuda/depthwise/sum.cuh"

namespace im2win::cuda {

/// Keeps count of elements that are infinite or NaN: a multiple of 0 is NaN of those.
template <class Element>
class Finiteness {
 public:
  __device__ __forceinline__ void add(Pair<Element> pair) { zero_ = add_times_zero(pair, zero_); }
  /// Zeros of either sign add up to positive ones, whose bits are 0.
  __device__ __forceinline__ bool is_finite() const {
    return reinterpret_cast<const uint32_t&>(zero_) == 0;
  }

 private:
  Pair<Element> zero_ = pair_of<Element>(0, 0);
};

/// The same number, by a shuffle, so that the compiler keeps it in a register: it would rather work
/// out again in each turn what lanes begin with, in as many instructions as some rows take.
template <class Number>
__device__ __forceinline__ Number keep(Number x) {
  return __shfl_sync(~0u, x, static_cast<int>(threadIdx.x % 32));
}

/// Calls emit(p, sums) for the first `rows` rows of outputs from the top, at most kRows, each as
/// soon as the next row of the input is on its way. read() takes that and gives add(sums, r), which
/// adds its products with row r of the filter. It is read a single time, for all rows whose windows
/// hold it; one row more than those need may be read.
template <int kTaps, int kRows, class Read, class Emit>
__device__ __forceinline__ void convolve_rows(const float (&initial)[4], int rows, Read read,
                                              Emit emit) {
  float sums[kRows][4];
#pragma unroll
  for (int y = 0; y < kRows + kTaps - 1; ++y) {
    const int last = y - kTaps + 1;  // the output that the row completes
    const auto add = read();
    if (last > 0) {
      emit(last - 1, sums[last - 1]);
      if (last >= rows) return;
    }
#pragma unroll
    for (int p = 0; p < kRows; ++p) {
      if (p < last || p > y) continue;
      if (p == y) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[p][i] = initial[i];
      }
      add(sums[p], y - p);
    }
  }
  emit(kRows - 1, sums[kRows - 1]);
}

}  // namespace im2win::cuda
