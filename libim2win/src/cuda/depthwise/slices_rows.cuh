// Depthwise convolution in NHWC: what a warp computes, and the way of its input, row by row, to a
// ring in shared memory that is its own.
#pragma once

#include <cuda_pipeline.h>

#include <algorithm>
#include <type_traits>

#include "checked.hpp"
#include "cuda/depthwise/sum.cuh"
#include "cuda/depthwise/tile.hpp"
#include "cuda/launch.cuh"

namespace im2win::cuda {

/// The tile and the image. Plain data.
struct SlicesGrid {
  static constexpr bool kStartsEarly = true;  // before the kernel ahead of it ends: follow()
  Divisor shares, bands, slices, strips;
  Divisor row_combs, column_combs;    // the dilation: rows and columns of one are so far apart
  Divisor strip_words, filter_words;  // of all slices of a strip, and of their filters
  int columns;                        // of a strip
  int images;                         // at a time
  int band_rows, turns;
  int all_turns;  // of all warps with the same share and band
  int c, h, w, p, q;
  int word_bytes;  // of what is copied: 16 or 4
  int pixel_words;
  int warps;
  int64_t blocks;
  bool lets_next_start;  // at once, unless there is about a block a multiprocessor: see follow()

  /// `bytes`: of a word.
  SlicesGrid(const Problem& problem, const SlicesTile& tile, int64_t bytes, int64_t multiprocessors)
      : shares(tile.shares),
        bands(tile.bands),
        slices(tile.slices),
        strips(tile.strips),
        row_combs(problem.dilation_h),
        column_combs(problem.dilation_w),
        strip_words(int64_t{tile.slices} * tile.slice_bytes / bytes),
        filter_words(strip_words.divisor * problem.r * problem.s),
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
        word_bytes(static_cast<int>(bytes)),
        pixel_words(static_cast<int>(problem.c * element_bytes(problem.dtype) / bytes)),
        warps(static_cast<int>(tile.warps(problem.n))),
        blocks(ceil_div(warps, kSlicesWarps)),
        lets_next_start(2 * blocks < multiprocessors || 2 * blocks > 3 * multiprocessors) {}

  __device__ __forceinline__ int row_step() const { return static_cast<int>(row_combs.divisor); }
  __device__ __forceinline__ int column_step() const {
    return static_cast<int>(column_combs.divisor);
  }

  /// Of a strip. Past the last one it is outside the image.
  __device__ __forceinline__ int first_column(int strip) const {
    const auto [group, comb] = column_combs.divide(strip);
    return group * columns * column_step() + comb;
  }
};

/// How many of `limit` numbers from `first` on, a step apart, are below `end`.
__device__ __forceinline__ int count_steps(int first, int end, const Divisor& step, int limit) {
  return first < end ? min(step.quotient(end - 1 - first) + 1, limit) : 0;
}

/// What a warp computes: a band of some images, a share of it.
struct SlicesPlace {
  int share;
  int first_n, turns;
  int first_p, rows;
  int first_y, input_rows;    // below them, also outside the image
  int first_row, image_rows;  // of those, the ones inside

  __device__ __forceinline__ SlicesPlace(const SlicesGrid& grid, int warp, const Axis& vertical,
                                         int stride, int taps) {
    const auto [rest, number] = grid.shares.divide(warp);
    const auto [turn, band] = grid.bands.divide(rest);
    const auto [group, comb] = grid.row_combs.divide(band);
    share = number;
    const int first_turn = turn * grid.turns;
    turns = min(grid.turns, grid.all_turns - first_turn);
    first_n = first_turn * grid.images;
    first_p = group * grid.band_rows * grid.row_step() + comb;
    rows = count_steps(first_p, grid.p, grid.row_combs, grid.band_rows);
    first_y = first_p * stride - static_cast<int>(vertical.padding);
    input_rows = (rows - 1) * stride + taps;
    first_row = count_steps(first_y, 0, grid.row_combs, input_rows);
    image_rows = count_steps(first_y, grid.h, grid.row_combs, input_rows) - first_row;
  }
};

/// A strip of one of the images that a warp does at a time: its first column. Past all of them it is
/// outside the tensor.
struct SliceStrip {
  int q;
  int image;
};

/// The words that a lane copies of a row of the input. A layout's Words, of 16 bytes or of 4, say which
/// these are, which pixel below the strip comes first, where it is in the ring's row, and how much further
/// the others are.
struct SliceWord {
  SliceStrip strip;
  int number;  // of the pixel's
};

/// In place of a layout's bytes a word: 16 or 4, as the grid says, which takes up to 1.4 times as long as to know.
inline constexpr int kAnyWords = 0;

template <int kWordBytes>
__device__ __forceinline__ bool are_whole_words(const SlicesGrid& grid) {
  return (kWordBytes == kAnyWords ? grid.word_bytes : kWordBytes) == kDepthwiseWordBytes;
}

/// use() with the words of a layout that are copied. All warps go one way.
template <class Layout, class Use>
__device__ __forceinline__ void with_words(const SlicesGrid& grid, Use use) {
  if constexpr (Layout::kWordBytes != kAnyWords) {
    use(typename Layout::template Words<Layout::kWordBytes>{});
  } else if (are_whole_words<kAnyWords>(grid)) {
    use(typename Layout::template Words<16>{});
  } else {
    use(typename Layout::template Words<4>{});
  }
}

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
      : grid_(grid), ring_(ring), image_rows_(at.image_rows), left_(image_rows_ * at.turns) {
    with_words<Layout>(grid, [&](auto words) { find(words, a, at); });
    asm volatile("" : "+r"(to_), "+r"(copy_bytes_), "+r"(row_bytes_));
  }

  /// Starts with the filters and what there is room for beside them. After a strip's last slice comes
  /// the next one's first.
  __device__ __forceinline__ void start(const Element* filter, const SlicesPlace& at) {
    with_words<Layout>(grid_, [&](auto words) { copy_filters(words, filter, at); });
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
  static constexpr int kFilterBytes = Layout::kLineBytes * kTaps * kTaps;
  static constexpr int kFirstRows = kRows - ceil_div(kFilterBytes, Layout::kRowBytes);
  static_assert(kFirstRows > 0);

  /// Of a row, by a lane.
  template <class Words>
  static constexpr int kCopies = ceil_div(Layout::kReach, Words::kPixelStep);

  /// Where the lane's words are.
  template <class Words>
  __device__ __forceinline__ void find(Words, const DepthwiseArguments<Element, float>& a,
                                       const SlicesPlace& at) {
    constexpr int kWordBytes = Words::kBytes;
    const SliceWord word = Words::word(grid_, at.share);
    const int step = grid_.column_step();
    const int x =
        word.strip.q * kStride - static_cast<int>(a.horizontal.padding) + Words::pixel() * step;
    const int reach = (grid_.columns - 1) * kStride + kTaps - Words::pixel();
    inside_ = 0;
#pragma unroll
    for (int i = 0; i < kCopies<Words>; ++i) {
      const int further = i * Words::kPixelStep;
      if (further < reach && unsigned(x + further * step) < unsigned(grid_.w)) inside_ |= 1u << i;
    }
    if (word.number >= grid_.pixel_words || word.strip.q >= grid_.q) inside_ = 0;

    const int row_words = grid_.w * grid_.pixel_words;
    const int first_y = at.first_y + at.first_row * grid_.row_step();
    row_bytes_ = grid_.row_step() * row_words * kWordBytes;
    image_bytes_ = (int64_t{grid_.images} * grid_.h - image_rows_ * grid_.row_step()) *
                   (row_words * kWordBytes);
    copy_bytes_ = Words::kPixelStep * step * grid_.pixel_words * kWordBytes;
    from_ = reinterpret_cast<const unsigned char*>(a.input) +
            kWordBytes * (int64_t{at.first_n + word.strip.image} * grid_.h * row_words +
                          (first_y * row_words + x * grid_.pixel_words + word.number));
    to_ = shared_address(ring_) + Words::offset();
  }

  template <class Words>
  __device__ __forceinline__ void copy_filters(Words, const Element* filter,
                                               const SlicesPlace& at) {
    constexpr int kTapWords = kTaps * kTaps, kWordBytes = Words::kBytes;
    const auto from = reinterpret_cast<const unsigned char*>(filter);
    unsigned char* const to = ring_ + kFirstRows * Layout::kRowBytes;
    const int first = Words::first_word(grid_, at.share) * kTapWords;
    for (int word = threadIdx.x % 32; word < Words::kWords * kTapWords; word += 32) {
      const int number = grid_.filter_words.divide(first + word).remainder;
      if (number < grid_.pixel_words * kTapWords)
        __pipeline_memcpy_async(to + word * kWordBytes, from + number * kWordBytes, kWordBytes);
    }
  }

  /// copy() to a row for the first time.
  __device__ __forceinline__ void fill(int row) {
    with_words<Layout>(grid_, [&](auto words) { clear(words, row); });
    copy(row * Layout::kRowBytes);
  }

  /// What lies outside the image.
  template <class Words>
  __device__ __forceinline__ void clear(Words, int row) {
    using Word = std::conditional_t<Words::kBytes == 16, uint4, uint32_t>;
    unsigned char* const first = ring_ + row * Layout::kRowBytes + Words::offset();
#pragma unroll
    for (int i = 0; i < kCopies<Words>; ++i)
      if ((inside_ >> i & 1) == 0 && Words::pixel() + i * Words::kPixelStep < Layout::kReach)
        *reinterpret_cast<Word*>(first + i * Words::kStepBytes) = Word{};
  }

  /// Always a group of copies, if an empty one, so that wait() may count them.
  __device__ __forceinline__ void copy(uint32_t slot) {
    if (left_ > 0) {
      with_words<Layout>(grid_, [&](auto words) { copy_words(words, slot); });
      --left_;
      from_ += row_bytes_;
      if (++row_ == image_rows_) {
        row_ = 0;
        from_ += image_bytes_;
      }
    }
    __pipeline_commit();
  }

  template <class Words>
  __device__ __forceinline__ void copy_words(Words, uint32_t slot) {
    const unsigned char* from = from_;
#pragma unroll
    for (int i = 0; i < kCopies<Words>; ++i, from += copy_bytes_)
      if ((inside_ >> i & 1) != 0)
        copy_async<Words::kBytes>(to_ + slot + i * Words::kStepBytes, from);
  }

  const SlicesGrid& grid_;
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
