// Algorithm 3: from sums in registers to the output.
#pragma once

#include <cstdint>

#include "cuda/im2win/block.cuh"
#include "cuda/im2win/microkernel.cuh"

namespace im2win::cuda {

/// Finishes and stores what a warp has computed, row by row, so that its lanes store neighbouring
/// pixels whatever the alignment of the output's rows.
///
/// In a padded problem the windows hold zeros for the padding, and a non-finite weight makes a NaN
/// of such a zero. NaN stays NaN in a sum, so a sum that is none has not met one; a sum that is NaN
/// is set aside, to be computed again from the taps inside the image once the registers are free.
template <class T>
class Writer {
 public:
  __device__ __forceinline__ Writer(const Im2winArguments& a, const BlockPosition& block,
                                    const MicroKernel<T>& micro)
      : a_(a), block_(block), micro_(micro) {
#pragma unroll
    for (int i = 0; i < kLanePixels; ++i) {
      is_pixel_[i] = pixel(i) < a.pixels;
      const PixelPosition at = PixelPosition::of(a, is_pixel_[i] ? pixel(i) : 0);
      pixels_[i] = a.outputs.pixel(at.n, at.p, at.q);
    }
  }

  __device__ __forceinline__ void write(float (*rows)[T::kOutputPitch]) {
#pragma unroll 1
    for (int group = 0; group < kGroups; ++group) {
      __syncwarp();  // the rows of the group before have been read
      // Registers have no run-time index: one copy of the gathering for each group, one of the
      // rest.
#pragma unroll
      for (int i = 0; i < kGroups; ++i)
        if (i == group) micro_.gather(i, rows);
      __syncwarp();
#pragma unroll 4
      for (int step = 0; step < kSteps; ++step) write_row(group, step, rows[row(step)]);
    }
    for (; undefined_ != 0; undefined_ &= undefined_ - 1) {
      const int bit = __ffsll(static_cast<long long>(undefined_)) - 1;
      write_row_exact(bit / kSteps, bit % kSteps);
    }
  }

 private:
  static constexpr int kGroups = T::kMicroM / T::kVector;
  static constexpr int kRowLanes = T::kWarpN < 32 ? T::kWarpN : 32;  // lanes that share a row
  static constexpr int kLanePixels = T::kWarpN / kRowLanes;
  static constexpr int kSteps = T::kOutputRows * kRowLanes / 32;
  static_assert(kGroups * kSteps <= 64, "a bit for each row of a lane");

  __device__ __forceinline__ static int row(int step) {
    return step * (32 / kRowLanes) + threadIdx.x % 32 / kRowLanes;
  }
  __device__ __forceinline__ static int column(int i) { return threadIdx.x % kRowLanes + 32 * i; }
  __device__ __forceinline__ int64_t pixel(int i) const {
    return block_.first_pixel + micro_.warp_n() + column(i);
  }
  /// Counted from the group's first.
  __device__ __forceinline__ int64_t filter(int group, int step) const {
    return block_.filter_tile * T::kM + micro_.filter(group, row(step));
  }

  __device__ __forceinline__ void write_row(int group, int step, const float* row) {
    const int64_t k = filter(group, step);
    if (k >= a_.filters_per_group) return;
    float sums[kLanePixels];
    bool is_undefined = false;
#pragma unroll
    for (int i = 0; i < kLanePixels; ++i) {
      sums[i] = row[column(i)];
      is_undefined |= a_.padded && sums[i] != sums[i];
    }
    if (is_undefined) {
      undefined_ |= uint64_t{1} << (group * kSteps + step);
      return;
    }
    const auto part = a_.outputs.filter(block_.group * a_.filters_per_group + k);
#pragma unroll
    for (int i = 0; i < kLanePixels; ++i)
      if (is_pixel_[i]) a_.outputs.write(part, pixels_[i], sums[i]);
  }

  __device__ __forceinline__ void write_row_exact(int group, int step) const {
    const int64_t k = filter(group, step);
    const int64_t tile = block_.group * a_.filter_tiles.divisor + block_.filter_tile;
    const float* filter = a_.filters + tile * a_.padded_taps * T::kM + k % T::kM;
    const auto part = a_.outputs.filter(block_.group * a_.filters_per_group + k);
#pragma unroll 1
    for (int i = 0; i < kLanePixels && pixel(i) < a_.pixels; ++i) {
      const PixelPosition at = PixelPosition::of(a_, pixel(i));
      const float* window = a_.windows + at.base(a_.exact.layout) +
                            block_.group * a_.exact.channels * a_.exact.layout.channel;
      a_.outputs.write(part, a_.outputs.pixel(at.n, at.p, at.q),
                       a_.exact(window, filter, at.p, at.q));
    }
  }

  const Im2winArguments& a_;
  const BlockPosition& block_;
  const MicroKernel<T>& micro_;
  typename Outputs<float, float>::Pixel pixels_[kLanePixels];
  bool is_pixel_[kLanePixels];
  uint64_t undefined_ = 0;
};

}  // namespace im2win::cuda
