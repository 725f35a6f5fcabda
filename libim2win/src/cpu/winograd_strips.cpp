#include "cpu/winograd_strips.hpp"

#include <algorithm>

#include "checked.hpp"
#include "cpu/output.hpp"
#include "cpu/winograd_evenness.hpp"

namespace im2win::cpu {
namespace {

constexpr int64_t kLine = 64 / sizeof(float);  // of a cache

}  // namespace

WinogradStrips::WinogradStrips(const Problem& problem, int64_t tiles)
    : problem_(problem),
      kernels_(choose_kernels<float>()),
      winograd_(choose_winograd_kernels()),
      rows_(ceil_div(problem.p, 2)),
      columns_(ceil_div(problem.q, 2)),
      per_row_(ceil_div(columns_, kMostTaskTiles)),
      tiles_(ceil_div(columns_, per_row_)),
      per_block_(per_row_ > 1 ? 1
                              : std::max<int64_t>(std::min(tiles / tiles_, problem.n * rows_), 1)),
      channels_(round_up(problem.c_per_group(), kernels_.vector_elements)),
      panel_rows_(2 * (per_block_ + std::min(per_block_, ceil_div(per_block_ - 1, rows_) + 1))),
      panel_columns_(2 * tiles_ + 2),
      row_stride_(panel_columns_ * channels_) {}

Strip WinogradStrips::operator[](int64_t index) const {
  const int64_t begin = index % per_row_ * tiles_;
  return {index / per_row_ / rows_, index / per_row_ % rows_, begin,
          std::min(tiles_, columns_ - begin)};
}

/// Neighbouring strips of an image share two rows of the panel.
int64_t WinogradStrips::image_row(const StripBlock& block, int64_t index) const {
  const int64_t images = (*this)[index].n - (*this)[block.begin].n;
  return 2 * (index - block.begin + images);
}

int64_t WinogradStrips::panel_offset(const StripBlock& block, int64_t index) const {
  return image_row(block, index) * row_stride_;
}

void WinogradStrips::fill(const float* input, const StripBlock& block, float* panel) const {
  const Problem& d = problem_;
  for (int64_t index = block.begin; index < block.end; ++index) {
    const Strip strip = (*this)[index];
    const bool is_first = index == block.begin || strip.row == 0;
    const float* image = input + offset(d.input, strip.n, block.group * d.c_per_group(), 0, 0);
    float* rows = panel + panel_offset(block, index);
    for (int64_t i = is_first ? 0 : 2; i < 4; ++i)
      fill_row(image, strip.p() + i - d.padding_top, strip.q() - d.padding_left,
               rows + i * row_stride_);
  }
}

/// Row y of an image from column x on; zeros outside the image.
void WinogradStrips::fill_row(const float* image, int64_t y, int64_t x, float* target) const {
  const Problem& d = problem_;
  const int64_t* in = d.input.stride;
  const int64_t c = d.c_per_group();
  const bool is_inside = 0 <= y && y < d.h;
  const int64_t left = is_inside ? std::clamp<int64_t>(-x, 0, panel_columns_) : panel_columns_;
  const int64_t right = is_inside ? std::clamp<int64_t>(d.w - x, left, panel_columns_) : left;
  const int64_t count = right - left;
  const bool are_whole = c == channels_;  // else their vectors end in zeros
  std::fill_n(target, (are_whole ? left : panel_columns_) * channels_, 0.0F);
  if (are_whole)
    std::fill_n(target + right * channels_, (panel_columns_ - right) * channels_, 0.0F);
  if (count == 0) return;
  const float* source = image + y * in[2] + (x + left) * in[3];
  float* inside = target + left * channels_;
  if (are_whole && in[1] == 1 && in[3] == c) {
    kernels_.load({source, 0, 1, inside, 0, 1, count * c});
  } else {
    kernels_.load({source, in[3], in[1], inside, channels_, count, c});
  }
}

/// An odd number of lines apart: the points do not compete for the same sets of a cache.
int64_t WinogradStrips::point_stride() const {
  return (ceil_div(block_tiles() * channels_, kLine) | 1) * kLine;
}

void WinogradStrips::transform(const float* panel, const StripBlock& block, float* points,
                               bool* are_even) const {
  for (int64_t index = block.begin; index < block.end; ++index) {
    const int64_t tiles = (*this)[index].tiles;
    float* target = points + (index - block.begin) * tiles_ * channels_;
    Spread<float> spread;
    winograd_.transform_input({panel + panel_offset(block, index), row_stride_, channels_,
                               channels_, tiles, target, channels_, point_stride(), &spread});
    const int64_t inputs = 4 * (2 * tiles + 2) * problem_.c_per_group();
    are_even[index - block.begin] = is_even(spread, inputs, kMostUnevenInputs);
  }
}

}  // namespace im2win::cpu
