// Depthwise convolution in NHWC: what a warp computes, and the way of its input, row by row, to a
// ring in shared memory that is its own.
#pragma once

#include <cuda_pipeline.h>

#include <algorithm>

#include "checked.hpp"
#include "cuda/depthwise_sum.cuh"
#include "cuda/depthwise_tile.hpp"
#include "cuda/launch.cuh"

namespace im2win::cuda {

/// The tile and the image. Plain data.
struct SlicesGrid {
  static constexpr bool kStartsEarly = true;  // before the kernel ahead of it ends: follow()
  Divisor pairs, bands, slices;
  int units;  // slices of strips
  int band_rows, turns;
  int n, c, h, w, p, q;
  int pixel_words;
  int warps;
  int64_t blocks;

  SlicesGrid(const Problem& problem, const SlicesTile& tile)
      : pairs(ceil_div(tile.units, 2)),
        bands(tile.bands),
        slices(tile.slices),
        units(tile.units),
        band_rows(tile.band_rows),
        turns(tile.turns),
        n(static_cast<int>(problem.n)),
        c(static_cast<int>(problem.c)),
        h(static_cast<int>(problem.h)),
        w(static_cast<int>(problem.w)),
        p(static_cast<int>(problem.p)),
        q(static_cast<int>(problem.q)),
        pixel_words(
            static_cast<int>(problem.c * element_bytes(problem.dtype) / kDepthwiseWordBytes)),
        warps(static_cast<int>(tile.warps(problem.n))),
        blocks(ceil_div(warps, kSlicesWarps)) {}
};

/// What a warp computes: a band of some images, two units.
struct SlicesPlace {
  int first_unit;
  int first_n, end_n;
  int first_p, rows;
  int first_y, input_rows;  // below them, also outside the image

  __device__ __forceinline__ SlicesPlace(const SlicesGrid& grid, int warp, const Axis& vertical,
                                         int stride, int taps) {
    const auto [rest, pair] = grid.pairs.divide(warp);
    const auto [turn, band] = grid.bands.divide(rest);
    first_unit = 2 * pair;
    first_n = turn * grid.turns;
    end_n = min(grid.n, first_n + grid.turns);
    first_p = band * grid.band_rows;
    rows = min(grid.band_rows, grid.p - first_p);
    first_y = first_p * stride - static_cast<int>(vertical.padding);
    input_rows = (rows - 1) * stride + taps;
  }
};

/// A slice of a strip; past all of them it starts outside the tensor.
struct SliceStrip {
  int slice, q;

  __device__ __forceinline__ SliceStrip(const SlicesGrid& grid, int unit) {
    const auto [strip, number] = grid.slices.divide(unit);
    slice = number;
    q = unit < grid.units ? strip * kStripSize : grid.q;
  }
};

/// A ring of rows of the input below a warp's strips: [row][pixel of a strip][lane], zeros outside
/// the image. A lane copies words of every fourth pixel. The last rows hold the filters at first.
template <class Element, int kTaps, int kStride>
class SliceRows {
 public:
  static constexpr int kReach = (kStripSize - 1) * kStride + kTaps;
  static constexpr int kRowBytes = kReach * kSlicesLineBytes;
  static constexpr int kRows = std::min(kSlicesRingBytes / kRowBytes, 8);
  static constexpr int kBytes = kRows * kRowBytes;

  __device__ __forceinline__ SliceRows(const DepthwiseArguments<Element, float>& a,
                                       const SlicesGrid& grid, const SlicesPlace& at,
                                       unsigned char* ring)
      : ring_(ring) {
    const int lane = threadIdx.x % 32, word = lane % 8, pixel = lane / 8;
    const SliceStrip strip(grid, at.first_unit + word / 4);
    const int pixel_word = strip.slice * 4 + word % 4;
    const int x = strip.q * kStride - static_cast<int>(a.horizontal.padding) + pixel;
    inside_ = 0;
#pragma unroll
    for (int i = 0; i < kCopies; ++i)
      if (pixel + 4 * i < kReach && unsigned(x + 4 * i) < unsigned(grid.w)) inside_ |= 1u << i;
    if (pixel_word >= grid.pixel_words || strip.q >= grid.q) inside_ = 0;

    const int first_y = max(at.first_y, 0);
    image_rows_ = max(0, min(at.first_y + at.input_rows, grid.h) - first_y);
    left_ = image_rows_ * (at.end_n - at.first_n);
    const int row_words = grid.w * grid.pixel_words;
    row_bytes_ = row_words * 16;
    image_bytes_ = int64_t{grid.h - image_rows_} * row_bytes_;
    copy_bytes_ = 4 * grid.pixel_words * 16;
    from_ = reinterpret_cast<const unsigned char*>(a.input) +
            16 * (int64_t{at.first_n} * grid.h * row_words +
                  (first_y * row_words + x * grid.pixel_words + pixel_word));
    to_ = shared_address(ring) + lane * 16;
    asm volatile("" : "+r"(to_), "+r"(copy_bytes_), "+r"(row_bytes_));
  }

  /// Starts with the filters and what there is room for beside them.
  __device__ __forceinline__ void start(const Element* filter, const SlicesGrid& grid,
                                        const SlicesPlace& at) {
    constexpr int kSliceWords = 4 * kTaps * kTaps;
    const uint4* const from = reinterpret_cast<const uint4*>(filter);
    uint4* const to = reinterpret_cast<uint4*>(ring_ + kFirstRows * kRowBytes);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const SliceStrip strip(grid, at.first_unit + i);
      const int first = strip.slice * kSliceWords;
      const int words = min(kSliceWords, grid.pixel_words * kTaps * kTaps - first);
      for (int word = threadIdx.x % 32; word < words; word += 32)
        __pipeline_memcpy_async(to + i * kSliceWords + word, from + first + word, 16);
    }
    __pipeline_commit();
#pragma unroll
    for (int i = 0; i < kFirstRows; ++i) fill(i);
    __pipeline_wait_prior(kFirstRows);
    __syncwarp();
  }
  __device__ __forceinline__ const Element* filters() const {
    return reinterpret_cast<const Element*>(ring_ + kFirstRows * kRowBytes);
  }

  /// Once the filters are read.
  __device__ __forceinline__ void proceed() {
    __syncwarp();
#pragma unroll
    for (int i = kFirstRows; i < kRows; ++i) fill(i);
  }

  /// Where the row that is next is in the ring. None may be asked for but those of the images.
  __device__ __forceinline__ uint32_t wait() const {
    __pipeline_wait_prior(kRows - 1);
    __syncwarp();
    return slot_;
  }

  /// Once it is read: another may take its place.
  __device__ __forceinline__ void next() {
    __syncwarp();
    copy(slot_);
    slot_ = slot_ == kBytes - kRowBytes ? 0 : slot_ + kRowBytes;
  }

 private:
  static constexpr int kCopies = (kReach + 3) / 4;
  static constexpr int kFilterBytes = 2 * kSliceBytes * kTaps * kTaps;
  static constexpr int kFirstRows = kRows - (kFilterBytes + kRowBytes - 1) / kRowBytes;
  static_assert(kFirstRows > 0);

  /// copy() to a row for the first time.
  __device__ __forceinline__ void fill(int row) {
    uint4* const first = reinterpret_cast<uint4*>(ring_ + row * kRowBytes) + threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kCopies; ++i)
      if ((inside_ >> i & 1) == 0 && int(threadIdx.x % 32 / 8) + 4 * i < kReach)
        first[32 * i] = uint4{0, 0, 0, 0};
    copy(row * kRowBytes);
  }

  /// Always a group of copies, if an empty one, so that wait() may count them.
  __device__ __forceinline__ void copy(uint32_t slot) {
    if (left_ > 0) {
      const unsigned char* from = from_;
#pragma unroll
      for (int i = 0; i < kCopies; ++i, from += copy_bytes_)
        if ((inside_ >> i & 1) != 0) copy_async(to_ + slot + 512 * i, from);
      --left_;
      from_ += row_bytes_;
      if (++row_ == image_rows_) {
        row_ = 0;
        from_ += image_bytes_;
      }
    }
    __pipeline_commit();
  }

  unsigned char* ring_;
  uint32_t to_;                // of the lane's first word in the ring
  uint32_t slot_ = 0;          // in bytes
  unsigned inside_;            // a bit for each of the lane's words: whether it is in the tensor
  const unsigned char* from_;  // the first of them, in the next row to copy
  int row_ = 0, image_rows_, left_;
  int copy_bytes_, row_bytes_;
  int64_t image_bytes_;
};

}  // namespace im2win::cuda
