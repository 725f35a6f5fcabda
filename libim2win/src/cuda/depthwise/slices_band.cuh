// Depthwise convolution in NHWC: how a warp goes down its band of an image. Each row of the input
// contributes at once to all rows of outputs whose windows hold it.
#pragma once

#include "cuda/depthwise/slices_rows.cuh"
#include "cuda/depthwise/sum.cuh"

namespace im2win::cuda {

/// The number of a row in the band modulo kPeriod, its phase, says where the sums are of the rows of
/// outputs whose windows hold it: as constants, in registers.
template <int kTaps, int kStride>
struct BandPhases {
  static constexpr int kLive = (kTaps + kStride - 1) / kStride;  // rows of outputs at a time
  static constexpr int kPeriod = kLive * kStride;

  /// Where the sums are for which it is row r of the window.
  __device__ __forceinline__ static constexpr int live(int phase, int r) {
    return (phase - r + kPeriod) / kStride % kLive;
  }

  /// Whether it is the last of a window.
  __device__ __forceinline__ static constexpr bool is_last(int phase) {
    return (phase - (kTaps - 1) + kPeriod) % kStride == 0;
  }
};

/// The band of one image: add(phase, slot) for each row of the input, by its place in the ring, and
/// emit(phase, row) for each row of outputs that it completes, also those above the band, whose
/// numbers are negative.
template <int kTaps, int kStride, class Rows, class Add, class Emit>
__device__ __forceinline__ void go_down(const SlicesPlace& at, Rows& rows, Add add, Emit emit) {
  using Phases = BandPhases<kTaps, kStride>;
  for (int first = 0; first < at.input_rows; first += Phases::kPeriod) {
#pragma unroll
    for (int phase = 0; phase < Phases::kPeriod; ++phase) {
      const int row = first + phase;
      if (row >= at.input_rows) return;
      if (unsigned(row - at.first_row) < unsigned(at.image_rows)) {
        add(phase, rows.wait());
        rows.next();
      }
      if (Phases::is_last(phase)) emit(phase, (row - (kTaps - 1)) / kStride);
    }
  }
}

/// Some channels and columns of the band of the warp's images from first_n on, in the plainest way.
template <class Element>
__device__ __forceinline__ void write_exact(const DepthwiseArguments<Element, float>& a,
                                            const SlicesGrid& grid, const SlicesPlace& at,
                                            int first_n, int first_k, int channels, int first_q,
                                            int columns) {
  for (int turn = 0; turn < at.turns; ++turn)
    for (int row = 0; row < at.rows; ++row)
      for (int column = 0; column < columns; ++column)
        for (int k = first_k; k < first_k + channels; ++k)
          write_any(a, a.outputs.filter(k), first_n + turn * grid.images, k,
                    at.first_p + row * grid.row_step(), first_q + column * grid.column_step());
}

}  // namespace im2win::cuda
