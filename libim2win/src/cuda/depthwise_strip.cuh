// One thread's part of a depthwise convolution: a strip of columns, from the top to the bottom.
#pragma once

#include "cuda/depthwise_tile.hpp"
#include "cuda/numeric.cuh"

namespace im2win::cuda {

/// How a strip goes down the input, row by row. A row contributes at once to the kLive rows of
/// outputs whose windows hold it, so that it is read a single time.
template <int kTaps, int kStride>
struct StripSteps {
  static constexpr int kLive = (kTaps + kStride - 1) / kStride;
  /// Columns of the input below a strip.
  static constexpr int kReach = (kDepthwiseColumns - 1) * kStride + kTaps;
};

/// A strip of the input in shared memory.
template <class Element>
struct StripInput {
  const Element* start;  // the first column of the first row; never read where it is outside
  int row_pitch;
  int first_row, rows;  // the image's row that it starts at, and the image's number of them
  unsigned columns;     // a bit for each that is inside the image
};

/// Adds one row of the input to the sums of the live rows of outputs, the oldest first. Of the rows
/// of windows, those meet it whose number is `kPhase` below the last one's, modulo the stride.
template <int kTaps, int kStride, int kPhase, class Compute>
__device__ __forceinline__ void add_row(
    const Compute (&weights)[kTaps][kTaps], const Compute (&x)[StripSteps<kTaps, kStride>::kReach],
    Compute (&sums)[StripSteps<kTaps, kStride>::kLive][kDepthwiseColumns]) {
#pragma unroll
  for (int live = 0; live < StripSteps<kTaps, kStride>::kLive; ++live) {
    const int r = kTaps - 1 - kPhase - live * kStride;
    if (r < 0) continue;
#pragma unroll
    for (int s = 0; s < kTaps; ++s) {
#pragma unroll
      for (int q = 0; q < kDepthwiseColumns; ++q)
        sums[live][q] = fma(weights[r][s], x[q * kStride + s], sums[live][q]);
    }
  }
}

/// Reads a row, zeros for columns outside the image: they are put here if `kSelect`, and else lie
/// in shared memory.
template <int kColumnPitch, bool kSelect, class Element, class Compute, int kReach>
__device__ __forceinline__ void read_row(const Element* row, unsigned columns,
                                         Compute (&x)[kReach]) {
#pragma unroll
  for (int j = 0; j < kReach; ++j) {
    const bool inside = !kSelect || (columns >> j & 1) != 0;
    x[j] = inside ? to_compute<Compute>(row[j * kColumnPitch]) : Compute(0);
  }
}

/// Calls emit(row, sums) for each of `output_rows` rows of kDepthwiseColumns outputs, in order.
/// Rows outside the image are left out. A step takes the last row of a window and those up to the
/// next window's last. Sums move up a place in a step, which costs nothing in code unrolled until
/// they are back.
template <int kTaps, int kStride, int kColumnPitch, bool kSelect, class Element, class Compute,
          class Emit>
__device__ __forceinline__ void slide(const StripInput<Element>& input,
                                      const Compute (&weights)[kTaps][kTaps], int output_rows,
                                      Emit emit) {
  using Steps = StripSteps<kTaps, kStride>;
  constexpr int kAhead = Steps::kLive - 1;  // rows of outputs that are begun before the first
  static_assert((kTaps - 1) % kStride == 0, "windows end on the phase on which they begin");
  Compute sums[Steps::kLive][kDepthwiseColumns] = {};
  const Element* row = input.start;
  int y = input.first_row;
#pragma unroll 1
  for (int p = -kAhead; p < output_rows;) {
#pragma unroll
    for (int step = 0; step < Steps::kLive; ++step, ++p) {
      if (p >= output_rows) break;
      Compute x[Steps::kReach];
      if (unsigned(y) < unsigned(input.rows)) {
        read_row<kColumnPitch, kSelect>(row, input.columns, x);
        add_row<kTaps, kStride, 0>(weights, x, sums);
      }
      if (p >= 0) emit(p, sums[0]);
#pragma unroll
      for (int live = 0; live < Steps::kLive; ++live) {
#pragma unroll
        for (int q = 0; q < kDepthwiseColumns; ++q)
          sums[live][q] = live < kAhead ? sums[live + 1][q] : Compute(0);
      }
      if constexpr (kStride == 2) {
        if (p + 1 < output_rows && unsigned(y + 1) < unsigned(input.rows)) {
          read_row<kColumnPitch, kSelect>(row + input.row_pitch, input.columns, x);
          add_row<kTaps, kStride, 1>(weights, x, sums);
        }
      }
      row += kStride * input.row_pitch;
      y += kStride;
    }
  }
}

}  // namespace im2win::cuda
