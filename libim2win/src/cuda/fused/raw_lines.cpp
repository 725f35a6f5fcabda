#include "cuda/fused/raw_lines.hpp"

#include <algorithm>

#include "checked.hpp"
#include "cuda/fused/shared.hpp"

namespace im2win::cuda::fused {
namespace {

/// Rows of an image that a tile's positions meet.
int64_t position_rows(const Tile& tile) {
  return tile.run > 0 ? ceil_div(tile.pitch - 1 + tile.plane_positions, tile.pitch)
                      : tile.plane_positions / (tile.images * tile.pitch);
}

/// Channels that are neighbours are all in one slab's lines. Lines of a channel begin equally far
/// past 16 bytes. Pixels are counted in 32 bits, those of rows below an image, too.
bool has_raw_lines(const Problem& problem, const Tile& tile, int64_t word) {
  const int64_t column = raw_column_elements(problem);
  if ((problem.h + position_rows(tile) * problem.stride_h) * problem.w > kMaxSpan) return false;
  if (tile.images > 1 && problem.input.stride[0] % word != 0) return false;
  return column == 1 || (column > 1 && tile.chunks == 1 && problem.groups == 1);
}

/// Under a row of positions, padding among them.
int64_t row_pixels(const Problem& problem, const Tile& tile) {
  return (tile.pitch - 1) * problem.stride_w + reach_right(problem, tile) + 1;
}

/// Of the longest line.
int64_t line_pixels(const Problem& problem, const Tile& tile, bool rows_apart) {
  const int64_t stride_w = problem.stride_w, row = problem.stride_h * problem.w;
  const int64_t reach = reach_right(problem, tile), width = row_pixels(problem, tile);
  if (rows_apart) return std::min(width, problem.w);
  const int64_t positions = tile.plane_positions - 1;
  const int64_t rows = ceil_div(positions, int64_t{tile.pitch});
  const int64_t pixels = tile.run > 0
                             ? positions * stride_w +
                                   rows * std::max<int64_t>(row - tile.pitch * stride_w, 0) +
                                   reach + problem.padding_left + problem.padding_right + 1
                             : (position_rows(tile) - 1) * row + width;
  return std::min(pixels, problem.h * problem.w);
}

constexpr int64_t kTooMany = int64_t{1} << 20;

/// Each row under a tile, whether it is in the input or not, from a whole word on.
RawLines box_of_lines(const Problem& problem, const Tile& tile, int64_t channels, int64_t word) {
  const bool tiles_begin_words =
      tile.columns >= problem.q || tile.columns * problem.stride_w % word == 0;
  const bool begins_word = problem.padding_left % word == 0 && tiles_begin_words;
  const int64_t pixels = row_pixels(problem, tile) + (begins_word ? 0 : word - 1);
  RawLines box{};
  box.boxed = 1;
  box.channels = static_cast<int32_t>(channels);
  box.rows = static_cast<int32_t>(position_rows(tile));
  box.pitch = static_cast<int32_t>(std::min(round_up(pixels, word), kTooMany));
  return box;
}

bool fits_box(const RawLines& lines, const Tile& tile) {
  return std::max({lines.pitch, lines.rows, tile.images, lines.channels}) <= kMaxBox;
}

}  // namespace

int64_t raw_column_elements(const Problem& problem) {
  const Tensor& input = problem.input;
  for (const int64_t column : {int64_t{1}, problem.c}) {
    if ((problem.w == 1 || input.stride[3] == column) &&
        (problem.h == 1 || input.stride[2] == problem.w * column) &&
        (column == 1 || input.stride[1] == 1))
      return column;
  }
  return 0;
}

int raw_forms(const Problem& problem, Operands operands, const Tile& tile,
              RawLines (&forms)[kMaxRawForms]) {
  const int64_t word = kUnitBytes / moved_bytes(operands), column = raw_column_elements(problem);
  const int64_t slab_channels = int64_t{tile.units} * tile.unit_channels;
  const int64_t channels =
      tile.unit_columns > 1 ? slab_channels : std::min(slab_channels, problem.c_per_group());
  int count = 0;
  if (const RawLines box = box_of_lines(problem, tile, slab_channels, word);
      has_line_boxes(problem, operands) && fits_box(box, tile))
    forms[count++] = box;
  if (!has_raw_lines(problem, tile, word)) return count;
  for (const bool rows_apart : {false, true}) {
    // Lines of rows begin equally far past 16 bytes, too.
    if (rows_apart && problem.stride_h * problem.w * column % word != 0) break;
    const int64_t elements = line_pixels(problem, tile, rows_apart) * column;
    RawLines& form = forms[count++];
    form = {};
    form.channels = static_cast<int32_t>(column > 1 ? 1 : channels);
    form.rows = static_cast<int32_t>(rows_apart ? position_rows(tile) : 1);
    // And what alignment adds.
    form.pitch = static_cast<int32_t>(std::min(round_up(elements + word - 1, word), kTooMany));
  }
  return count;
}

}  // namespace im2win::cuda::fused
