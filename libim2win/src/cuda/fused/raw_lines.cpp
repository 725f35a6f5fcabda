#include "cuda/fused/raw_lines.hpp"

#include <algorithm>
#include <numeric>

#include "checked.hpp"
#include "cuda/fused/shared.hpp"

namespace im2win::cuda::fused {
namespace {

/// Rows of an image that a tile's positions meet.
int64_t position_rows(const Tile& tile) {
  return tile.run > 0 ? ceil_div(tile.pitch - 1 + tile.plane_positions, tile.pitch)
                      : tile.plane_positions / (tile.images * tile.pitch);
}

/// Pixels are counted in 32 bits, those of rows below an image, too.
bool counts_pixels(const Problem& problem, const Tile& tile) {
  return (problem.h + position_rows(tile) * problem.stride_h) * problem.w <= kMaxSpan;
}

/// Channels that are neighbours are all in one slab's lines. Lines of a channel begin equally far
/// past 16 bytes.
bool has_raw_lines(const Problem& problem, const Tile& tile, int64_t word) {
  const int64_t column = raw_column_elements(problem);
  if (!counts_pixels(problem, tile)) return false;
  if (tile.images > 1 && problem.input.stride[0] % word != 0) return false;
  return column == 1 || (column > 1 && tile.chunks == 1 && problem.groups == 1);
}

/// Under a row of positions, padding among them.
int64_t row_pixels(const Problem& problem, const Tile& tile) {
  return (tile.pitch - 1) * problem.stride_w + reach_right(problem, tile) + 1;
}

/// Of a line that goes on from row to row, wherever the tile is.
int64_t plane_pixels(const Problem& problem, const Tile& tile) {
  const int64_t stride_w = problem.stride_w, row = problem.stride_h * problem.w;
  if (tile.run == 0) return (position_rows(tile) - 1) * row + row_pixels(problem, tile);
  const int64_t positions = tile.plane_positions - 1;
  const int64_t rows = ceil_div(positions, int64_t{tile.pitch});
  return positions * stride_w + rows * std::max<int64_t>(row - tile.pitch * stride_w, 0) +
         reach_right(problem, tile) + problem.padding_left + problem.padding_right + 1;
}

constexpr int64_t kTooMany = int64_t{1} << 20;

/// Their pitch, where lines begin with any multiple of `step` pixels.
int32_t pitch_of(int64_t pixels, int64_t step, int64_t word) {
  return static_cast<int32_t>(
      std::min(round_up(pixels + word - std::gcd(step, word), word), kTooMany));
}

/// Each row under a tile, whether it is in the input or not, from a whole word on.
bool row_boxes(const Problem& problem, Operands operands, const Tile& tile, RawLines& form) {
  if (problem.stride_h > kMaxPhases || problem.h < problem.stride_h ||
      !has_whole_slabs(problem, tile) || !has_boxes(problem.input, 3, moved_bytes(operands)))
    return false;
  const int64_t word = kUnitBytes / moved_bytes(operands);
  const int64_t columns = tile.columns < problem.q ? tile.columns * problem.stride_w : 0;
  form.boxed = form.apart = 1;
  form.rows = static_cast<int32_t>(position_rows(tile));
  form.pitch = pitch_of(row_pixels(problem, tile), std::gcd(columns, problem.padding_left), word);
  return true;
}

/// All rows under a tile from a whole word on; what they need not be is of other rows, or planes.
bool plane_boxes(const Problem& problem, Operands operands, const Tile& tile, RawLines& form) {
  const int64_t word = kUnitBytes / moved_bytes(operands), plane = problem.h * problem.w;
  if (raw_column_elements(problem) != 1 || !counts_pixels(problem, tile) ||
      !has_whole_slabs(problem, tile))
    return false;
  const int64_t stride_c = problem.c > 1 ? problem.input.stride[1] : 0;
  while ((stride_c << form.phase_bits) % word != 0) ++form.phase_bits;
  const int64_t phases = int64_t{1} << form.phase_bits;
  const bool divides = problem.c % phases == 0 && stride_c == plane && phases <= tile.unit_channels;
  if (plane * phases > kMaxSpan || (phases > 1 && !divides) ||
      !has_boxes(plane_lines(problem.input, form.phase_bits), 3, moved_bytes(operands)))
    return false;
  const int64_t pixels = plane_pixels(problem, tile), row = problem.w;
  int64_t step = std::gcd(problem.padding_top * row, problem.padding_left);
  if (tile.run > 0) step = 1;
  if (phases > 1) step = std::gcd(step, plane);
  if (tile.rows < problem.p) step = std::gcd(step, tile.rows * problem.stride_h * row);
  if (tile.columns < problem.q) step = std::gcd(step, tile.columns * problem.stride_w);
  if (tile.tap_groups > 1) step = std::gcd(step, problem.dilation_h * row);
  form.boxed = form.rows = 1;
  form.pitch = pitch_of(problem.is_padded() ? std::min(pixels, plane) : pixels, step, word);
  return true;
}

/// Likewise, of pixels whose channels are neighbours, and no operands as they are. Units that are held find their way
/// in two such rows.
bool pixel_boxes(const Problem& problem, Operands operands, const Tile& tile, RawLines& form) {
  const int64_t row_bytes = int64_t{tile.units} * kUnitBytes * 2;
  const int64_t most_bytes = tile.held ? 2 * kRowBytes : kRowBytes;
  if (operands != Operands::kSplit || tile.unit_columns > 1 || row_bytes > most_bytes ||
      problem.stride_h > kMaxPhases || problem.h < problem.stride_h ||
      !has_whole_slabs(problem, tile) || !has_boxes(problem.input, 1, moved_bytes(operands)))
    return false;
  form.boxed = form.apart = form.by_pixels = 1;
  form.rows = static_cast<int32_t>(position_rows(tile));
  form.pitch = static_cast<int32_t>(std::min(row_pixels(problem, tile), kTooMany));
  return true;
}

/// Words of a box's pixels as units of its channels. Eight lines are read at a time, which meet all
/// banks if an odd number of words is between them. A line that is too long for a box goes on in another.
/// Returns whether slabs of more channels would not be better.
bool transpose(const Problem& problem, Operands operands, const Tile& tile, RawLines& box) {
  const int phases = 1 << box.phase_bits, word = kUnitBytes / moved_bytes(operands);
  if (!are_elements(operands) || tile.unit_columns > 1) return true;
  if (tile.units % phases != 0) return problem.c_per_group() < phases * tile.unit_channels;
  for (int plane = 0; plane < tile.planes; ++plane)
    box.pixel_positions = std::max(
        box.pixel_positions, planes_alike(tile, plane, static_cast<int>(problem.stride_w)) + 1);
  constexpr int kMostWords = kMaxBox * 2 / kUnitBytes - 1;
  const int64_t words = box.pitch / word;
  if (!box.apart && tile.images == 1) box.rows = static_cast<int32_t>(ceil_div(words, kMostWords));
  const int64_t each = box.apart ? words : ceil_div(words, box.rows);
  box.pitch = static_cast<int32_t>((each | 1) * word);
  return true;
}

/// Where products read them: eight neighbours of four channels at a time, which then meet all banks.
int32_t pitch_without_conflicts(int32_t pitch) { return (pitch + 7) / 16 * 16 + 8; }

/// A box, or those that follow each other: of phases, and of the parts of long lines.
bool fits_boxes(const RawLines& lines, const Tile& tile, int64_t element_bytes) {
  const int64_t channels = lines.box_channels();
  const int64_t bytes = channels * tile.images * lines.pitch * element_bytes;
  const bool is_one = lines.boxes() == 1 && (lines.apart || lines.rows == 1);
  if (!is_one && bytes % kRawAlignment != 0) return false;
  return std::max({int64_t{lines.pitch}, int64_t{lines.apart ? lines.rows : 1},
                   int64_t{tile.images}, channels}) <= kMaxBox;
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

Tensor plane_lines(const Tensor& input, int32_t phase_bits) {
  Tensor lines = input;
  lines.size[1] >>= phase_bits;
  lines.size[2] = 1;
  lines.size[3] = input.size[2] * input.size[3] << phase_bits;
  lines.stride[1] = input.stride[1] << phase_bits;
  lines.stride[3] = 1;
  return lines;
}

int raw_forms(const Problem& problem, Operands operands, const Tile& tile,
              RawLines (&forms)[kMaxRawForms]) {
  const int64_t word = kUnitBytes / moved_bytes(operands), column = raw_column_elements(problem);
  const int64_t slab_channels = int64_t{tile.units} * tile.unit_channels;
  const int64_t channels =
      tile.unit_columns > 1 ? slab_channels : std::min(slab_channels, problem.c_per_group());
  int count = 0;
  for (const auto box_of : {row_boxes, plane_boxes, pixel_boxes}) {
    RawLines box{};
    box.channels = static_cast<int32_t>(slab_channels);
    if (!box_of(problem, operands, tile, box) || !transpose(problem, operands, tile, box)) continue;
    box.has_zeros_around = box.apart || !problem.is_padded();
    if (tile.from_lines) box.pitch = pitch_without_conflicts(box.pitch);
    box.position_row = static_cast<int32_t>(box.apart ? box.box_channels() * box.pitch
                                                      : problem.stride_h * problem.w);
    if (fits_boxes(box, tile, moved_bytes(operands))) forms[count++] = box;
  }
  if (!has_raw_lines(problem, tile, word)) return count;
  for (const bool rows_apart : {false, true}) {
    // Lines of rows begin equally far past 16 bytes, too.
    if (rows_apart && problem.stride_h * problem.w * column % word != 0) break;
    const int64_t pixels = rows_apart
                               ? std::min(row_pixels(problem, tile), problem.w)
                               : std::min(plane_pixels(problem, tile), problem.h * problem.w);
    RawLines& form = forms[count++];
    form = {};
    form.apart = rows_apart;
    form.channels = static_cast<int32_t>(column > 1 ? 1 : channels);
    form.rows = static_cast<int32_t>(rows_apart ? position_rows(tile) : 1);
    form.pitch = pitch_of(pixels * column, 1, word);
  }
  return count;
}

}  // namespace im2win::cuda::fused
