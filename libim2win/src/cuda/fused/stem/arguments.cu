#include <algorithm>
#include <numeric>

#include "cuda/fused/raw_lines.hpp"
#include "cuda/fused/stem/arguments.cuh"

namespace im2win::cuda::fused::stem {
namespace {

Lines lines_of(const Problem& problem) {
  const int64_t elements = raw_column_elements(problem);
  return {Divisor(elements == 1 ? problem.c_per_group() : 1), static_cast<int32_t>(elements)};
}

template <class Element>
RowOrder row_order_of(const Problem& problem, const KernelShape& shape,
                      const fused::Arguments<Element>& a) {
  if (a.stored) return RowOrder::kBoxes;
  if (!finishes_in_registers(problem)) return RowOrder::kOne;
  if (shape.pixel_major && !a.outputs.only_adds_bias_and_clamps()) return RowOrder::kOne;
  if (a.words) return RowOrder::kFilters;
  return problem.output.stride[3] == 1 ? RowOrder::kPixels : RowOrder::kOne;
}

bool has_whole_sectors(const Problem& problem) {
  const Tensor& output = problem.output;
  for (int dimension = 0; dimension < 3; ++dimension)
    if (output.size[dimension] > 1 && output.stride[dimension] % kSectorPixels != 0) return false;
  return problem.q % kSectorPixels == 0;
}

/// Each warpgroup has rows of its own where pixels may wait for others of their sector (see SectorRows), if
/// there is room for the bands of so many and blocks have enough of them.
int32_t rows_of_group(const Bands& bands, const KernelShape& shape, int64_t block_rows) {
  const int rows = shape.multiplying_warpgroups;
  return bands.chunks > 1 && bands.stages > bands.of_rows(rows) && block_rows >= 4 * rows ? rows
                                                                                          : 1;
}

/// How many pixels of any of the output's planes, each without gaps, are a word of 16 bytes or less.
int32_t plane_word(const Problem& problem) {
  const int64_t bytes = element_bytes(problem.dtype);
  int64_t word = kUnitBytes / bytes;
  for (int64_t apart : {problem.output.stride[0], problem.output.stride[1], problem.p * problem.q})
    word = std::gcd(word, apart);
  return static_cast<int32_t>(word);
}

/// Whether all blocks write near one another, a few runs each at a time: where outputs are many times what the L2 cache
/// holds. It takes longer between runs.
bool are_apart(const Problem& problem, const KernelShape& shape) {
  constexpr double kManyBytes = 200e6;
  const double bytes = double(problem.n * problem.k) * double(problem.p * problem.q) *
                       double(element_bytes(problem.dtype));
  return shape.runs && bytes >= kManyBytes;
}

}  // namespace

template <class Element>
Arguments<Element>::Arguments(const Problem& problem, const StemChoice& choice,
                              const KernelShape& shape, Operands operands, int64_t blocks)
    : fused::Arguments<Element>(shape.runs ? rows_of(problem, shape) : problem, choice.tile, shape,
                                operands),
      bands(choice.bands),
      run_order(run_positions(operands, static_cast<int>(problem.stride_w)) > 1 ? bands.units
                : bands.output_rows > 1                                         ? problem.q
                                                                                : bands.positions),
      rows(static_cast<int32_t>(rows_of(problem, shape).p)),
      band_step(bands.output_rows * static_cast<int32_t>(problem.stride_h)),
      band_channels(problem.c_per_group()),
      lines(lines_of(problem)),
      row_order(row_order_of(problem, shape, *this)),
      sets(choice.sets),
      filter_sets(problem.groups * this->filter_tiles.divisor / sets),
      group_sets(this->filter_tiles.divisor / sets),
      row_chunks(bands.chunks),
      row_pieces(bands.chunks * sets),
      row_pixels(problem.q),
      pixels(static_cast<int32_t>(problem.p * problem.q)),
      run_word(plane_word(problem)),
      pairs(shape.dense && has_pairs(problem, shape)) {
  const int64_t set_strips = this->tiles / this->row_tiles.divisor / filter_sets.divisor / sets;
  const int64_t most_blocks = std::max<int64_t>(blocks / filter_sets.divisor, 1);
  if (sizeof(Element) == 4 && row_order == RowOrder::kPixels && !shape.pixel_major && !shape.runs) {
    const int64_t all_rows = set_strips * rows;
    group_rows = rows_of_group(bands, shape, all_rows / std::min(most_blocks, all_rows));
    if (group_rows > 1 || has_whole_sectors(problem)) row_order = RowOrder::kSectors;
  }
  if (shape.runs) group_rows = shape.multiplying_warpgroups;
  if (choice.gathers) {
    gathered_units = 2 * choice.tile.tile.steps[0].count;
    for (int i = 0; i < gathered_units; ++i) gathered[i] = choice.tile.order.unit[0][i / 2][i % 2];
    unit_rounds = Divisor(ceil_div(int64_t{gathered_units}, int64_t{lane_units(shape)}));
  }
  strip_shares = Divisor(ceil_div(int64_t{rows}, int64_t{group_rows}));
  const auto set_shares = static_cast<int32_t>(set_strips * strip_shares.divisor);
  set_blocks = static_cast<int32_t>(std::min<int64_t>(most_blocks, set_shares));
  block_shares = set_shares / set_blocks;
  more_shares = set_shares % set_blocks;
  share_step = are_apart(problem, shape) ? set_blocks : 1;
  next_piece = group_rows > 1 ? Piece{0, 1} : piece_of_row(shape.multiplying_warpgroups);
  this->shared = stem_layout(choice, shape, operands);
}

template struct Arguments<__half>;
template struct Arguments<__nv_bfloat16>;
template struct Arguments<float>;

}  // namespace im2win::cuda::fused::stem
