// Depthwise convolution in NHWC: what a warp computes, and the way of its input, row by row, to a
// ring in shared memory that is its own.
#pragma once

#include <cuda_pipeline.h>

#include <algorithm>

#include "checked.hpp"
#include "cuda/depthwise/sum.cuh"
#include "cuda/depthwise/tile.hpp"
#include "cuda/launch.cuh"

namespace im2win::cuda {

/// The tile and the image. Plain data.
struct SlicesGrid {
  static constexpr bool kStartsEarly = true;  // before the kernel ahead of it ends: follow()
  Divisor pairs, bands, slices, strips;
  int columns;  // of a strip
  int images;   // at a time
  int band_rows, turns;
  int all_turns;  // of all warps with the same pair and band
  int c, h, w, p, q;
  int pixel_words;
  int warps;
  int64_t blocks;

  SlicesGrid(const Problem& problem, const SlicesTile& tile)
      : pairs(tile.pairs),
        bands(tile.bands),
        slices(tile.slices),
        strips(tile.strips),
        columns(tile.columns),
        images(tile.images),
        band_rows(tile.band_rows),
        turns(tile.turns),
        all_turns(static_cast<int>(problem.n / tile.images)),
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
  int pair;  // of units
  int first_n, turns;
  int first_p, rows;
  int first_y, input_rows;  // below them, also outside the image

  __device__ __forceinline__ SlicesPlace(const SlicesGrid& grid, int warp, const Axis& vertical,
                                         int stride, int taps) {
    const auto [rest, number] = grid.pairs.divide(warp);
    const auto [turn, band] = grid.bands.divide(rest);
    pair = number;
    const int first_turn = turn * grid.turns;
    turns = min(grid.turns, grid.all_turns - first_turn);
    first_n = first_turn * grid.images;
    first_p = band * grid.band_rows;
    rows = min(grid.band_rows, grid.p - first_p);
    first_y = first_p * stride - static_cast<int>(vertical.padding);
    input_rows = (rows - 1) * stride + taps;
  }
};

/// A unit: a slice of a strip of one of the images that a warp does at a time. Past all of them it
/// starts outside the tensor.
struct SliceStrip {
  int slice, q;
  int image;
};

/// The first word that a lane copies of a row of the input. Layouts say which that is, and how much
/// further the lane's others are.
struct SliceWord {
  int unit;    // of the two
  int number;  // among those of the slice
  int pixel;   // below the strip
  int offset;  // in the ring's row, in bytes

  __device__ __forceinline__ int pixel_word(const SliceStrip& strip, int slice_words) const {
    return strip.slice * slice_words + number;
  }
};

/// A ring of rows of the input below a warp's strips, zeros outside the image. The last rows hold the
/// filters at first.
template <class Element, int kTaps, int kStride, class Layout>
class SliceRows {
 public:
  static constexpr int kRows = std::min(Layout::kRingBytes / Layout::kRowBytes, 8);
  static constexpr int kBytes = kRows * Layout::kRowBytes;

  __device__ __forceinline__ SliceRows(const DepthwiseArguments<Element, float>& a,
                                       const SlicesGrid& grid, const SlicesPlace& at,
                                       unsigned char* ring)
      : ring_(ring) {
    const SliceWord word = Layout::word();
    const SliceStrip strip = Layout::strip(grid, at.pair, word.unit);
    const int pixel_word = word.pixel_word(strip, Layout::kWords);
    const int x = strip.q * kStride - static_cast<int>(a.horizontal.padding) + word.pixel;
    const int reach = (grid.columns - 1) * kStride + kTaps - word.pixel;
    inside_ = 0;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int further = i * Layout::kPixelStep;
      if (further < reach && unsigned(x + further) < unsigned(grid.w)) inside_ |= 1u << i;
    }
    if (pixel_word >= grid.pixel_words || strip.q >= grid.q) inside_ = 0;

    const int first_y = max(at.first_y, 0);
    image_rows_ = max(0, min(at.first_y + at.input_rows, grid.h) - first_y);
    left_ = image_rows_ * at.turns;
    const int row_words = grid.w * grid.pixel_words;
    row_bytes_ = row_words * 16;
    image_bytes_ = (int64_t{grid.images} * grid.h - image_rows_) * row_bytes_;
    copy_bytes_ = Layout::kPixelStep * grid.pixel_words * 16;
    from_ = reinterpret_cast<const unsigned char*>(a.input) +
            16 * (int64_t{at.first_n + strip.image} * grid.h * row_words +
                  (first_y * row_words + x * grid.pixel_words + pixel_word));
    to_ = shared_address(ring) + word.offset;
    asm volatile("" : "+r"(to_), "+r"(copy_bytes_), "+r"(row_bytes_));
  }

  /// Starts with the filters and what there is room for beside them.
  __device__ __forceinline__ void start(const Element* filter, const SlicesGrid& grid,
                                        const SlicesPlace& at) {
    constexpr int kSliceWords = Layout::kWords * kTaps * kTaps;
    const uint4* const from = reinterpret_cast<const uint4*>(filter);
    uint4* const to = reinterpret_cast<uint4*>(ring_ + kFirstRows * Layout::kRowBytes);
#pragma unroll
    for (int i = 0; i < Layout::kSlices; ++i) {
      const int first = Layout::strip(grid, at.pair, i).slice * kSliceWords;
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
    return reinterpret_cast<const Element*>(ring_ + kFirstRows * Layout::kRowBytes);
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
    slot_ = slot_ == kBytes - Layout::kRowBytes ? 0 : slot_ + Layout::kRowBytes;
  }

 private:
  static constexpr int kCopies = ceil_div(Layout::kReach, Layout::kPixelStep);
  static constexpr int kFilterBytes = Layout::kSlices * Layout::kWords * 16 * kTaps * kTaps;
  static constexpr int kFirstRows = kRows - ceil_div(kFilterBytes, Layout::kRowBytes);
  static_assert(kFirstRows > 0);

  /// copy() to a row for the first time.
  __device__ __forceinline__ void fill(int row) {
    const SliceWord word = Layout::word();
    unsigned char* const first = ring_ + row * Layout::kRowBytes + word.offset;
#pragma unroll
    for (int i = 0; i < kCopies; ++i)
      if ((inside_ >> i & 1) == 0 && word.pixel + i * Layout::kPixelStep < Layout::kReach)
        *reinterpret_cast<uint4*>(first + i * Layout::kStepBytes) = uint4{0, 0, 0, 0};
    copy(row * Layout::kRowBytes);
  }

  /// Always a group of copies, if an empty one, so that wait() may count them.
  __device__ __forceinline__ void copy(uint32_t slot) {
    if (left_ > 0) {
      const unsigned char* from = from_;
#pragma unroll
      for (int i = 0; i < kCopies; ++i, from += copy_bytes_)
        if ((inside_ >> i & 1) != 0) copy_async(to_ + slot + i * Layout::kStepBytes, from);
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
