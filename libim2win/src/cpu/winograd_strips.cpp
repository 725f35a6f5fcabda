#include "cpu/winograd_strips.hpp"

#include <algorithm>

#include "checked.hpp"
#include "cpu/output.hpp"
#include "cpu/winograd_evenness.hpp"

namespace im2win::cpu {
namespace {

constexpr int64_t kLineBytes = 64;  // of a cache

/// Along an axis, how many of so many positions from `begin` on are in an image of `size`.
int64_t count_inside(int64_t begin, int64_t count, int64_t size) {
  return std::max<int64_t>(std::min(begin + count, size) - std::max<int64_t>(begin, 0), 0);
}

/// The fewest taps inside of windows of three; of neighbouring outputs the first or the last has them.
int64_t fewest_taps(int64_t first, int64_t end, int64_t stride, int64_t padding, int64_t size) {
  return std::min(count_inside(first * stride - padding, 3, size),
                  count_inside((end - 1) * stride - padding, 3, size));
}

}  // namespace

template <class Element>
WinogradStrips<Element>::WinogradStrips(const Problem& problem, int64_t tiles)
    : problem_(problem),
      kernels_(choose_kernels<Element>()),
      size_(tile_size(problem)),
      step_(2 * problem.stride_h),
      rows_(ceil_div(problem.p, 2)),
      columns_(ceil_div(problem.q, 2)),
      per_row_(ceil_div(columns_, kMostTaskTiles)),
      tiles_(ceil_div(columns_, per_row_)),
      per_block_(per_row_ > 1 ? 1
                              : std::max<int64_t>(std::min(tiles / tiles_, problem.n * rows_), 1)),
      channels_(round_up(problem.c_per_group(), kernels_.vector_elements)),
      panel_rows_(step_ * per_block_ +
                  (size_ - step_) * std::min(per_block_, ceil_div(per_block_ - 1, rows_) + 1)),
      panel_columns_(step_ * tiles_ + size_ - step_),
      row_stride_(panel_columns_ * channels_) {}

template <class Element>
Strip WinogradStrips<Element>::operator[](int64_t index) const {
  const int64_t begin = index % per_row_ * tiles_;
  return {index / per_row_ / rows_, index / per_row_ % rows_, begin,
          std::min(tiles_, columns_ - begin)};
}

/// Neighbouring strips of an image share rows of the panel.
template <class Element>
int64_t WinogradStrips<Element>::image_row(const StripBlock& block, int64_t index) const {
  const int64_t images = (*this)[index].n - (*this)[block.begin].n;
  return step_ * (index - block.begin) + (size_ - step_) * images;
}

template <class Element>
int64_t WinogradStrips<Element>::panel_offset(const StripBlock& block, int64_t index) const {
  return image_row(block, index) * row_stride_;
}

template <class Element>
void WinogradStrips<Element>::fill(const Element* input, const StripBlock& block,
                                   Compute* panel) const {
  const Problem& d = problem_;
  for (int64_t index = block.begin; index < block.end; ++index) {
    const Strip strip = (*this)[index];
    const bool is_first = index == block.begin || strip.row == 0;
    const Element* image = input + offset(d.input, strip.n, block.group * d.c_per_group(), 0, 0);
    Compute* rows = panel + panel_offset(block, index);
    for (int64_t i = is_first ? 0 : size_ - step_; i < size_; ++i)
      fill_row(image, strip.p() * d.stride_h + i - d.padding_top,
               strip.q() * d.stride_w - d.padding_left, rows + i * row_stride_);
  }
}

/// Row y of an image from column x on; zeros outside the image.
template <class Element>
void WinogradStrips<Element>::fill_row(const Element* image, int64_t y, int64_t x,
                                       Compute* target) const {
  const Problem& d = problem_;
  const int64_t* in = d.input.stride;
  const int64_t c = d.c_per_group();
  const bool is_inside = 0 <= y && y < d.h;
  const int64_t left = is_inside ? std::clamp<int64_t>(-x, 0, panel_columns_) : panel_columns_;
  const int64_t right = is_inside ? std::clamp<int64_t>(d.w - x, left, panel_columns_) : left;
  const int64_t count = right - left;
  const bool are_whole = c == channels_;  // else their vectors end in zeros
  std::fill_n(target, (are_whole ? left : panel_columns_) * channels_, Compute(0));
  if (are_whole)
    std::fill_n(target + right * channels_, (panel_columns_ - right) * channels_, Compute(0));
  if (count == 0) return;
  const Element* source = image + y * in[2] + (x + left) * in[3];
  Compute* inside = target + left * channels_;
  if (are_whole && in[1] == 1 && in[3] == c) {
    kernels_.load({source, 0, 1, inside, 0, 1, count * c});
  } else {
    kernels_.load({source, in[3], in[1], inside, channels_, count, c});
  }
}

/// An odd number of lines apart: the points do not compete for the same sets of a cache.
template <class Element>
int64_t WinogradStrips<Element>::point_stride() const {
  constexpr int64_t kLine = kLineBytes / sizeof(Compute);
  return (ceil_div(block_tiles() * channels_, kLine) | 1) * kLine;
}

/// Of any output of a strip.
template <class Element>
int64_t WinogradStrips<Element>::fewest_products(const Strip& strip) const {
  const Problem& d = problem_;
  const int64_t rows =
      fewest_taps(strip.p(), std::min(strip.p() + 2, d.p), d.stride_h, d.padding_top, d.h);
  const int64_t columns = fewest_taps(strip.q(), std::min(strip.q() + 2 * strip.tiles, d.q),
                                      d.stride_w, d.padding_left, d.w);
  return rows * columns * d.c_per_group();
}

/// What a strip sees of the image.
template <class Element>
int64_t WinogradStrips<Element>::input_count(const Strip& strip) const {
  const Problem& d = problem_;
  const int64_t columns = step_ * strip.tiles + size_ - step_;
  return count_inside(strip.p() * d.stride_h - d.padding_top, size_, d.h) *
         count_inside(strip.q() * d.stride_w - d.padding_left, columns, d.w) * d.c_per_group();
}

template <class Element>
void WinogradStrips<Element>::transform(const Compute* panel, const StripBlock& block,
                                        Compute* points, bool* are_even) const {
  for (int64_t index = block.begin; index < block.end; ++index) {
    const Strip strip = (*this)[index];
    const int64_t tiles = strip.tiles;
    Compute* target = points + (index - block.begin) * tiles_ * channels_;
    Spread<Compute> spread;
    kernels_.transform_input[problem_.stride_h - 1]({panel + panel_offset(block, index),
                                                     row_stride_, channels_, channels_, tiles,
                                                     target, channels_, point_stride(), &spread});
    are_even[index - block.begin] = fewest_products(strip) >= kFewestProducts &&
                                    is_even(spread, input_count(strip), kMostUnevenInputs);
  }
}

template class WinogradStrips<double>;
template class WinogradStrips<float>;
template class WinogradStrips<Float16>;
template class WinogradStrips<BFloat16>;

}  // namespace im2win::cpu
