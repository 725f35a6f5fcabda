// One thread's part of a depthwise convolution: a strip of columns, from the top to the bottom.
#pragma once

#include "cuda/depthwise_tile.hpp"
#include "cuda/numeric.cuh"

namespace im2win::cuda {

/// The steps of a strip down the input, a row each. A row contributes to the kLive rows of outputs
/// whose windows hold it, at once, so that it is read a single time; the first of them is then
/// complete. Sums take turns in kLive slots, and steps repeat after kPeriod, so that in unrolled
/// code every slot is a register.
template <int kTaps, int kStride>
struct StripSteps {
  static constexpr int kLive = (kTaps + kStride - 1) / kStride;
  static constexpr int kPeriod = kStride * kLive;
  /// Columns of the input below a strip.
  static constexpr int kReach = (kDepthwiseColumns - 1) * kStride + kTaps;

  static constexpr bool meets(int step, int tap) { return (step + kPeriod - tap) % kStride == 0; }
  static constexpr int slot(int step, int tap) {
    return (step + kPeriod - tap) / kStride % kLive;
  }
  static constexpr int rows(int output_rows) { return (output_rows - 1) * kStride + kTaps; }
};

/// A strip of the input in shared memory.
template <class Element>
struct StripInput {
  const Element* start;  // the first column of the first row; never read where it is outside
  int row_pitch;
  int first_row, rows;  // the image's row that it starts at, and the image's number of them
  int first_column, columns;
};

/// Calls emit(row, sums) for each of `output_rows` rows of kDepthwiseColumns outputs. Rows outside
/// the image are left out; columns outside it are zeros, which are put here if `kSelect`, and else
/// lie in shared memory.
template <int kTaps, int kStride, int kColumnPitch, bool kSelect, class Element, class Compute,
          class Emit>
__device__ __forceinline__ void slide(const StripInput<Element>& input,
                                      const Compute (&weights)[kTaps][kTaps], int output_rows,
                                      Emit emit) {
  using Steps = StripSteps<kTaps, kStride>;
  Compute sums[Steps::kLive][kDepthwiseColumns] = {};
  const int steps = Steps::rows(output_rows);
  const Element* row = input.start;
#pragma unroll 1
  for (int first = 0; first < steps; first += Steps::kPeriod) {
#pragma unroll
    for (int i = 0; i < Steps::kPeriod; ++i, row += input.row_pitch) {
      if (first + i >= steps) break;
      const int y = input.first_row + first + i;
      if (y >= 0 && y < input.rows) {
        Compute x[Steps::kReach];
#pragma unroll
        for (int j = 0; j < Steps::kReach; ++j) {
          const int column = input.first_column + j;
          const bool inside = !kSelect || (column >= 0 && column < input.columns);
          x[j] = inside ? to_compute<Compute>(row[j * kColumnPitch]) : Compute(0);
        }
#pragma unroll
        for (int r = 0; r < kTaps; ++r) {
          if (!Steps::meets(i, r)) continue;
#pragma unroll
          for (int s = 0; s < kTaps; ++s) {
#pragma unroll
            for (int q = 0; q < kDepthwiseColumns; ++q) {
              Compute& sum = sums[Steps::slot(i, r)][q];
              sum = fma(weights[r][s], x[q * kStride + s], sum);
            }
          }
        }
      }
      if (Steps::meets(i, kTaps - 1)) {
        Compute(&done)[kDepthwiseColumns] = sums[Steps::slot(i, kTaps - 1)];
        const int complete = first + i - (kTaps - 1);
        if (complete >= 0) emit(complete / kStride, done);
#pragma unroll
        for (int q = 0; q < kDepthwiseColumns; ++q) done[q] = 0;
      }
    }
  }
}

}  // namespace im2win::cuda
