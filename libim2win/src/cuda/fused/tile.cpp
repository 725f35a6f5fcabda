#include "cuda/fused/tile.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "checked.hpp"
#include "cuda/fused/pixel_words.hpp"
#include "cuda/fused/shared.hpp"
#include "status.hpp"

namespace im2win::cuda::fused {

bool has_merged_groups(const Problem& problem) {
  return problem.filter.size[1] != problem.c_per_group();
}

bool has_whole_slabs(const Problem& problem, const Tile& tile) {
  return problem.groups == 1 || problem.c_per_group() % (tile.units * tile.unit_channels) == 0;
}

bool has_boxes(const Tensor& tensor, int fastest, int64_t element_bytes) {
  constexpr int64_t kMaxStride = int64_t{1} << 38;  // of phases: at most kMaxPhases times that
  for (int dimension = 0; dimension < 4; ++dimension) {
    const int64_t stride = tensor.stride[dimension], bytes = stride * element_bytes;
    const bool fits = dimension == fastest
                          ? stride == 1
                          : bytes > 0 && bytes < kMaxStride && bytes % kUnitBytes == 0;
    if (tensor.size[dimension] > 1 && !fits) return false;
  }
  return true;
}

bool has_whole_sectors(const Tensor& tensor, int64_t element_bytes) {
  constexpr int64_t kSectorBytes = 32;
  for (const int dimension : {0, 2, 3})
    if (tensor.size[dimension] > 1 && tensor.stride[dimension] * element_bytes % kSectorBytes != 0)
      return false;
  return true;
}

bool has_input_boxes(const Problem& problem, Operands operands) {
  return problem.stride_h * problem.stride_w <= kMaxPhases && problem.h >= problem.stride_h &&
         problem.w >= problem.stride_w && has_boxes(problem.input, 1, moved_bytes(operands));
}

int copied_bytes(const Problem& problem, Operands operands) {
  constexpr int64_t kLeast = 4;  // PTX ISA, cp.async
  if (operands == Operands::kSplit || problem.input.stride[1] != 1) return 0;
  const int64_t word = pixel_word(problem.input, problem.c_per_group());
  const int64_t bytes = std::gcd(word * moved_bytes(operands), int64_t{kUnitBytes});
  if (bytes == kUnitBytes && !are_elements(operands)) return 0;
  return bytes < kLeast ? 0 : static_cast<int>(bytes);
}

namespace {

/// Whether words of so many pixels, every stride_w'th, are all the input's: a row's last one may go on in the row below,
/// which no window has.
bool has_whole_words(const Problem& problem, int64_t pixels) {
  const int64_t end = round_up(problem.q, pixels) * problem.stride_w;
  const int64_t row = problem.input.stride[2];
  const bool has_row_below = (problem.p - 1) * problem.stride_h + 1 < problem.h;
  return end <= problem.w || (has_row_below && row >= problem.w && end <= row + problem.w);
}

}  // namespace

int row_pixels(const Problem& problem, Operands operands) {
  constexpr int64_t kMost = kWordPixels / 2, kFewSteps = 2;
  const Tensor& input = problem.input;
  if (!are_elements(operands) || problem.r != 1 || problem.s != 1 || problem.is_padded() ||
      (input.size[3] > 1 && input.stride[3] != 1))
    return 0;
  if (!has_pixels_apart(problem) && problem.n == 1 && has_boxes(input, 3, moved_bytes(operands)))
    return kWordPixels;
  if (input.size[1] > 1 && std::abs(input.stride[1]) >= kMaxSpan) return 0;
  if (problem.stride_w > kFewSteps) return 1;
  int64_t word = problem.stride_w == 1 ? std::gcd(problem.q, kMost) : kMost * problem.stride_w;
  for (int dimension = 0; dimension < 3; ++dimension) {
    const int64_t steps = dimension == 2 ? problem.stride_h : 1;
    if (input.size[dimension] > 1) word = std::gcd(word, input.stride[dimension] * steps);
  }
  int64_t pixels = std::max(word / problem.stride_w, int64_t{1});
  while (pixels > 1 && !has_whole_words(problem, pixels)) pixels /= 2;
  return static_cast<int>(pixels);
}

bool may_box_filters(const Problem& problem, Operands operands, int units) {
  return units == 2 * traits(operands).batch && !has_merged_groups(problem) &&
         has_boxes(problem.filter, 1, moved_bytes(operands));
}

bool has_filter_boxes(const Problem& problem, Operands operands, const Tile& tile) {
  return (tile.boxed() || tile.from_lines) && may_box_filters(problem, operands, tile.units);
}

bool has_whole_filters(const Problem& problem, const KernelShape& shape) {
  return problem.groups == 1 || problem.k_per_group() % shape.filters == 0;
}

bool has_whole_planes(const Problem& problem, const KernelShape& shape, Operands operands,
                      const Tile& tile) {
  const bool has_all = tile.run == 0 && tile.rows >= problem.p && tile.columns == problem.q;
  return are_elements(operands) && has_all && tile.cluster_bits == 0 && !tile.boxed() &&
         !shape.divides_columns() && problem.output.is_nchw() &&
         problem.k_per_group() % kPlaneFilters == 0;
}

bool has_output_boxes(const Problem& problem, Operands operands, int fastest) {
  const int bytes = moved_bytes(operands);
  return problem.output.size[fastest] * bytes % kUnitBytes == 0 &&
         has_boxes(problem.output, fastest, bytes) &&
         (!problem.has_residual || has_boxes(problem.residual, fastest, bytes));
}

int row_word(const Problem& problem, const Tile& tile) {
  const Tensor& output = problem.output;
  if (output.stride[3] != 1) return 1;
  // What lies between words, in pixels: all of it whole words if its greatest common divisor is.
  int64_t between = problem.q;
  for (const int32_t pixels : {tile.columns, tile.column_pitch, tile.warpgroup_columns, tile.run})
    between = std::gcd(between, int64_t{pixels});
  for (int dimension = 0; dimension < 3; ++dimension)
    if (output.size[dimension] > 1) between = std::gcd(between, output.stride[dimension]);
  return static_cast<int>(std::gcd(between, int64_t{4}));
}

int32_t reach_right(const Problem& problem, const Tile& tile) {
  return *std::max_element(tile.origin, tile.origin + tile.planes) +
         (tile.unit_columns - 1) * static_cast<int32_t>(problem.dilation_w);
}

int64_t row_tiles(const Problem& problem, const Tile& tile) {
  return tile.run > 0 ? ceil_div((problem.p - 1) * tile.pitch + problem.q, int64_t{tile.run})
                      : ceil_div(problem.p, int64_t{tile.rows});
}

int64_t column_tiles(const Problem& problem, const Tile& tile) {
  return tile.run > 0 ? 1 : ceil_div(problem.q, int64_t{tile.columns});
}

int64_t filter_tiles(const Problem& problem, const Tile& tile, const KernelShape& shape) {
  return round_up(ceil_div(problem.k_per_group(), int64_t{shape.filters}),
                  int64_t{tile.shares_windows ? 2 : 1});
}

double tile_count(const Problem& problem, const Tile& tile, const KernelShape& shape) {
  const double pixel_tiles = double(row_tiles(problem, tile)) * double(column_tiles(problem, tile));
  return double(filter_tiles(problem, tile, shape)) * double(problem.groups) *
         double(ceil_div(problem.n, int64_t{tile.images})) * pixel_tiles;
}

int64_t batch_count(const Tile& tile, OperandTraits traits) {
  int64_t batches = 0;
  for (int kind = 0; kind < 2; ++kind) {
    const int groups = kind == 0 ? tile.full_groups : tile.tap_groups - tile.full_groups;
    batches += int64_t{groups} * ceil_div(tile.steps[kind].count, traits.batch);
  }
  return batches * tile.chunks;
}

std::string describe(const Tile& tile) {
  return text(
      tile.images, " images x ", tile.rows, " x ", tile.columns, ", pitch ", tile.pitch,
      tile.run > 0                      ? " in runs"
      : tile.column_pitch == tile.pitch ? ""
                                        : " in strips",
      ", ", tile.product_columns, " columns", tile.filters_in_place ? ", filters in place" : "",
      tile.pixel_rows ? ", rows of pixels" : "",
      tile.from_lines   ? ", windows from lines"
      : tile.stored     ? ", boxes in and out"
      : tile.pixel_word ? text(" by ", tile.pixel_word)
      : tile.boxed()    ? ", boxes in"
                        : "",
      tile.whole_planes ? ", whole planes out" : "", tile.shares_windows ? ", windows shared" : "",
      ", ", tile.planes, " planes, ", tile.positions, " positions x ", tile.units, " units of ",
      tile.unit_channels, " x ", tile.unit_columns, ", ", tile.raw.stages, " x ", tile.raw.channels,
      " x ", tile.raw.rows, tile.raw.boxed ? " boxed" : " raw",
      tile.raw.by_pixels ? " pixels'" : "", tile.raw.apart ? " rows" : "",
      tile.raw.transposed() ? " transposed" : "", tile.held ? " held" : "", " lines of ",
      tile.raw.pitch, tile.line_warp ? " by a warp, " : ", ", tile.tap_groups, " tap groups x ",
      tile.chunks, " chunks, ", tile.steps[0].count, " steps, ", tile.slab_stages, " slabs, ",
      tile.filter_stages, " filter stages", tile.resident ? " (resident)" : "",
      ", shared out among ", tile.cluster_blocks());
}

}  // namespace im2win::cuda::fused
