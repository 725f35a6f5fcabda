#include "cpu/winograd/strips.hpp"

#include <algorithm>
#include <numeric>

#include "checked.hpp"
#include "cpu/output.hpp"
#include "cpu/taps.hpp"

namespace im2win::cpu {
namespace {

constexpr int64_t kLineBytes = 64;  // of a cache

/// Inputs that two outputs see and the next two see, too.
int64_t shared(const WinogradAxis& axis) { return axis.size() - axis.step(); }

/// How many of `count` positions begin, begin + step and so on are in an image of `size`.
int64_t count_inside(int64_t begin, int64_t count, int64_t step, int64_t size) {
  const TapRange range = taps_inside(size, count, step, begin);
  return std::max<int64_t>(range.end - range.begin, 0);
}

/// The fewest taps inside of some neighbouring outputs' windows: the first or the last has them.
int64_t fewest_taps(int64_t first, int64_t end, const WinogradAxis& axis, int64_t padding,
                    int64_t size) {
  return std::min(count_inside(first * axis.stride() - padding, axis.taps(), 1, size),
                  count_inside((end - 1) * axis.stride() - padding, axis.taps(), 1, size));
}

}  // namespace

template <class Element>
WinogradStrips<Element>::WinogradStrips(const Problem& problem, int64_t tiles)
    : problem_(problem),
      kernels_(choose_kernels<Element>()),
      window_(winograd_window(problem)),
      rows_(ceil_div(problem.p, 2)),
      columns_(ceil_div(problem.q, 2)),
      per_row_(ceil_div(columns_, kMostTaskTiles)),
      tiles_(ceil_div(columns_, per_row_)),
      per_block_(per_row_ > 1 ? 1
                              : std::max<int64_t>(std::min(tiles / tiles_, problem.n * rows_), 1)),
      channels_(round_up(problem.c_per_group(), kernels_.vector_elements)),
      panel_rows_(window_.rows().step() * per_block_ +
                  shared(window_.rows()) *
                      std::min(per_block_, ceil_div(per_block_ - 1, rows_) + 1)),
      panel_columns_(window_.columns().step() * tiles_ + shared(window_.columns())),
      row_stride_(panel_columns_ * channels_) {
  // An odd number of lines each: points do not compete for the same sets of a cache.
  constexpr int64_t kLine = kLineBytes / sizeof(Compute);
  point_offsets_[0] = 0;
  for (int64_t point = 0; point < kWinogradPoints; ++point)
    point_offsets_[point + 1] =
        point_offsets_[point] + (ceil_div(block_tiles() * tile_stride(point), kLine) | 1) * kLine;
}

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
  return window_.rows().step() * (index - block.begin) + shared(window_.rows()) * images;
}

template <class Element>
int64_t WinogradStrips<Element>::panel_offset(const StripBlock& block, int64_t index) const {
  return image_row(block, index) * row_stride_;
}

template <class Element>
void WinogradStrips<Element>::fill(const Element* input, const StripBlock& block,
                                   Compute* panel) const {
  const Problem& d = problem_;
  const WinogradAxis& tile = window_.rows();
  for (int64_t index = block.begin; index < block.end; ++index) {
    const Strip strip = (*this)[index];
    const bool is_first = index == block.begin || strip.row == 0;
    const Element* image = input + offset(d.input, strip.n, block.group * d.c_per_group(), 0, 0);
    Compute* rows = panel + panel_offset(block, index);
    for (int64_t i = is_first ? 0 : shared(tile); i < tile.size(); ++i)
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

/// Of any output of a strip.
template <class Element>
int64_t WinogradStrips<Element>::fewest_products(const Strip& strip) const {
  const Problem& d = problem_;
  const int64_t rows =
      fewest_taps(strip.p(), std::min(strip.p() + 2, d.p), window_.rows(), d.padding_top, d.h);
  const int64_t columns = fewest_taps(strip.q(), std::min(strip.q() + 2 * strip.tiles, d.q),
                                      window_.columns(), d.padding_left, d.w);
  return rows * columns * d.c_per_group();
}

/// Of the inputs in the image that pieces see how many there are, each as often as it is seen, is returned, and how
/// large they are is added to the spread.
template <class Element>
int64_t WinogradStrips<Element>::transform_strip(const Strip& strip, const Compute* panel,
                                                 int64_t first_tile, Compute* points,
                                                 Spread<Compute>& spread) const {
  const Problem& d = problem_;
  int64_t inputs = 0;
  for (int64_t i = 0; i < window_.pieces(); ++i) {
    const WindowPiece piece = window_.piece(i);
    const WinogradPiece &row = piece.row, &column = piece.column;
    InputTiles<Compute> tiles = {panel + row.first * row_stride_ + column.first * channels_,
                                 d.stride_h * row_stride_,
                                 d.stride_w * channels_,
                                 channels_,
                                 strip.tiles,
                                 {},
                                 {},
                                 &spread};
    for (int64_t point = 0; point < kWinogradPoints; ++point) {
      tiles.tile_strides[point] = tile_stride(point);
      tiles.points[point] = points + point_offsets_[point] + first_tile * tile_stride(point) +
                            window_.entry(point, piece) * channels_;
    }
    kernels_.transform_input[row.taps - 1][column.taps - 1](tiles);
    inputs += count_inside(strip.p() * d.stride_h - d.padding_top + row.first, row.taps + 1,
                           d.stride_h, d.h) *
              count_inside(strip.q() * d.stride_w - d.padding_left + column.first,
                           2 * strip.tiles + column.taps - 1, d.stride_w, d.w);
  }
  return inputs * d.c_per_group();
}

template <class Element>
void WinogradStrips<Element>::transform(const Compute* panel, const StripBlock& block,
                                        Compute* points, StripInputs* inputs) const {
  for (int64_t index = block.begin; index < block.end; ++index) {
    const Strip strip = (*this)[index];
    Spread<Compute> spread = {};
    const int64_t count = transform_strip(strip, panel + panel_offset(block, index),
                                          (index - block.begin) * tiles_, points, spread);
    *inputs++ = {static_cast<double>(fewest_products(strip)), unevenness(spread, count)};
  }
}

template <class Element>
void WinogradStrips<Element>::list_offsets(int64_t begin, int64_t count, int64_t channels,
                                           int64_t* offsets) const {
  int64_t entry = begin / channels;
  int64_t channel = begin % channels;
  for (const int64_t* end = offsets + count; offsets < end; ++entry, channel = 0) {
    const int64_t neighbours = std::min<int64_t>(channels - channel, end - offsets);
    std::iota(offsets, offsets + neighbours, entry * channels_ + channel);
    offsets += neighbours;
  }
}

template class WinogradStrips<double>;
template class WinogradStrips<float>;
template class WinogradStrips<Float16>;
template class WinogradStrips<BFloat16>;

}  // namespace im2win::cpu
