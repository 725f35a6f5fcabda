// The sums of a tile in float64, by tensor cores.
#pragma once

#include "cuda/implicit_gemm/arguments.cuh"

namespace im2win::cuda::implicit_gemm {

/// sums += A B: lane i holds element [i / 4][i % 4] of A, [i % 4][i / 4] of B, and [i / 4] by
/// 2 (i % 4) and the next of the sums (PTX ISA, mma.m8n8k4).
__device__ __forceinline__ void multiply(double (&sums)[2], double a, double b) {
#if __CUDA_ARCH__ >= 800
  // Volatile: all lanes of the warp have to meet here, and not where only some want the sums.
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(sums[0]), "+d"(sums[1])
               : "d"(a), "d"(b));
#else
  __trap();
#endif
}

/// A warp's quarter of the tile, of which a lane holds two neighbouring pixels of every 8 x 8.
template <class T>
class TensorCoreSums {
 public:
  static constexpr int kBlocks = 3;  // of a multiprocessor

  __device__ __forceinline__ void add(const typename T::Operand& filters,
                                      const typename T::Operand& windows) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int tap = 0; tap < T::kTaps; tap += 4) {
      double a[kSquares], b[kSquares];
#pragma unroll
      for (int i = 0; i < kSquares; ++i) {
        a[i] = filters[tap + lane % 4][first_filter() + 8 * i + lane / 4];
        b[i] = windows[tap + lane % 4][first_pixel() + 8 * i + lane / 4];
      }
#pragma unroll
      for (int m = 0; m < kSquares; ++m)
#pragma unroll
        for (int n = 0; n < kSquares; ++n) multiply(sums_[m][n], a[m], b[n]);
    }
  }

  /// Of each pixel the outputs one after the other.
  __device__ __forceinline__ void write(const Arguments<double>& a, const Place& place) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < kSquares; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int64_t pixel = place.first_pixel + first_pixel() + 8 * n + lane % 4 * 2 + i;
        if (pixel >= a.pixels) continue;
        const OutputIndex at = output_at(a, place, 0, pixel);
        const auto part = a.exact.outputs.pixel(at.n, at.p, at.q);
#pragma unroll
        for (int m = 0; m < kSquares; ++m) {
          const int64_t filter = place.first_filter + first_filter() + 8 * m + lane / 4;
          const int64_t k = place.group * a.filters + filter;
          if (filter < a.filters)
            write_sum(
                a, a.exact.outputs.filter(k), part,
                [&] { return OutputIndex{at.n, k, at.p, at.q}; }, sums_[m][n][i]);
        }
      }
    }
  }

 private:
  static constexpr int kSquares = T::kEdge / 2 / 8;

  __device__ __forceinline__ static int first_filter() { return threadIdx.x / 64 * (T::kEdge / 2); }
  __device__ __forceinline__ static int first_pixel() {
    return threadIdx.x / 32 % 2 * (T::kEdge / 2);
  }

  double sums_[kSquares][kSquares][2] = {};
};

}  // namespace im2win::cuda::implicit_gemm
