#include "cuda/fused/stem/tile.hpp"

#include <algorithm>
#include <cmath>

#include "checked.hpp"
#include "cuda/fused/stem/band_layout.hpp"
#include "cuda/fused/stem/cut.hpp"
#include "cuda/fused/stem/shapes.hpp"
#include "epilogue.hpp"

namespace im2win::cuda::fused::stem {
namespace {

/// Of outputs. Strips share a row out, of as few columns as they can have, if they are of one chunk.
int strip_columns(const Problem& problem, const KernelShape& shape, int chunks) {
  if (chunks > 1) return chunks * shape.columns;
  const int64_t strips = row_chunks(problem, shape);
  // Whole words of outputs, wherever rows are.
  constexpr int64_t kColumns = 8;
  return static_cast<int>(round_up(ceil_div(problem.q, strips), kColumns));
}

/// Of a strip: those that have positions. Sums of columns past a strip's are looked into as others are, and so
/// have to be of finite numbers, but for pixel-major ones.
int staged_columns(const Problem& problem, const KernelShape& shape, int chunks) {
  return shape.pixel_major ? strip_columns(problem, shape, chunks) : chunks * shape.columns;
}

Tile tile_of(const Problem& problem, const KernelShape& shape, const Bands& bands, int steps) {
  Tile tile{};
  tile.columns = strip_columns(problem, shape, bands.chunks);
  tile.images = 1;
  tile.rows = shape.multiplying_warpgroups * bands.output_rows;
  tile.pitch = tile.positions = tile.positions_pitch = tile.plane_positions = bands.positions;
  tile.planes = 1;
  tile.group_stride = 8;
  tile.column_pitch = tile.warpgroup_columns = tile.product_columns = shape.columns;
  if (bands.output_rows > 1) {
    tile.columns = tile.column_pitch = static_cast<int>(problem.q);
    tile.warpgroup_columns = bands.output_rows * tile.columns;
  }
  tile.unit_channels = 1;
  tile.unit_columns = shape.dense ? 0 : kUnitColumns;
  tile.units = shape.dense ? bands.units : static_cast<int>(problem.c_per_group());
  tile.chunks = tile.row_units = 1;
  tile.tap_groups = tile.column_groups = tile.full_groups = 1;
  tile.group_rows = static_cast<int>(problem.r);
  tile.row_step = 1;
  tile.steps[0].count = steps;
  tile.resident = 1;
  return tile;
}

/// As many bands as there is room for; more than those of so many rows, lest those who stage wait for
/// a row's end. Warpgroups that take turns with staging have stages of their own.
bool fit_bands(const KernelShape& shape, Operands operands, const Chip& chip, int rows,
               StemChoice& choice) {
  const int least = choice.bands.of_rows(rows) + 1, step = shape.staging_warpgroups;
  static_assert(kMaxBands % kMostStagingWarpgroups == 0);
  for (choice.bands.stages = kMaxBands; choice.bands.stages >= least; choice.bands.stages -= step)
    if (stem_layout(choice, shape, operands).total <= chip.shared_bytes) return true;
  return false;
}

/// Filters as many as are best of those that there is room for. Of bands so many that no warpgroup waits for another's
/// row; or, if there is no room, for one row.
bool fit_block(const Problem& problem, const KernelShape& shape, Operands operands,
               const Chip& chip, StemChoice& choice) {
  for (const int32_t sets : sets_of(problem, shape, operands, chip, choice.bands.chunks)) {
    choice.sets = sets;
    if (fit_bands(shape, operands, chip, shape.multiplying_warpgroups, choice)) return true;
  }
  choice.sets = 1;
  return fit_bands(shape, operands, chip, 1, choice);
}

/// Of an image of outputs, in columns of products: those of all filters, and what each piece takes beside. Dense bands
/// need half of the products, and runs are written with less ado.
double cost(const Problem& problem, const KernelShape& shape) {
  const double piece = shape.runs ? 12 : 24;
  const int64_t tiles = ceil_div(problem.k_per_group(), int64_t{shape.filters});
  const double products = shape.dense ? shape.sums() : 2 * shape.sums();
  const Problem rows = rows_of(problem, shape);
  return double(tiles * rows.p * row_chunks(rows, shape)) * (products + piece);
}

/// Whether outputs are sums and a bias, perhaps clamped from below.
bool adds_simply(const Problem& problem) {
  return !problem.has_residual && problem.alpha == 1 &&
         (problem.activation == IM2WIN_IDENTITY || problem.activation == IM2WIN_RELU);
}

/// Whether a tile's filters of pixels may leave as boxes.
bool stores_boxes(const Problem& problem, const KernelShape& shape, Operands operands) {
  return operands != Operands::kSplit && !shape.pixel_major &&
         has_output_boxes(problem, operands, 1) && has_whole_filters(problem, shape) &&
         finishes_in_registers(problem);
}

/// Whether pixel-major sums leave as rows of pixels or words of filters, and are of more filters than others have.
/// Other outputs are written one by one, which costs more than products in vain, but where operands are split.
bool suits_pixel_major(const Problem& problem, Operands operands) {
  const Tensor& output = problem.output;
  const int64_t bytes = problem.k_per_group() * moved_bytes(operands);
  return (output.stride[3] == 1 || (output.stride[1] == 1 && bytes % kUnitBytes == 0)) &&
         (operands == Operands::kSplit ||
          (adds_simply(problem) && problem.k_per_group() > kBoxedFilters));
}

/// Whether planes are without gaps, so that runs of their pixels are as well.
bool suits_runs(const Problem& problem) {
  const Tensor& output = problem.output;
  return output.stride[3] == 1 && output.stride[2] == problem.q &&
         double(problem.p) * double(problem.q) < double(kMaxSpan) && finishes_in_registers(problem);
}

/// With 16 bits: whether others have packed their filters for as long as all of this takes.
bool is_quick(const Problem& problem) {
  constexpr double kFewColumns = 200'000;
  if (element_bytes(problem.dtype) != 2) return false;
  int64_t columns = round_up(problem.q, int64_t{kNarrow.columns});
  if (suits_pixel_major(problem, operands_of(problem)))
    columns = std::min(columns, round_up(problem.q, int64_t{kPixelMajorHalves.columns}));
  const int64_t tiles = ceil_div(problem.k_per_group(), int64_t{kNarrow.filters});
  return double(problem.n * problem.p) * double(columns) * double(tiles) <= kFewColumns;
}

bool suits(const Problem& problem, const KernelShape& shape, Operands operands) {
  if (shape.pixel_major) return suits_pixel_major(problem, operands);
  if (shape.dense && !has_dense_windows(problem)) return false;
  return !shape.runs || suits_runs(problem);
}

/// Whether rows are neighbours in memory, of pixels that are.
bool has_raw_rows(const Problem& problem) {
  const Tensor& input = problem.input;
  return problem.c == kRawChannels && problem.groups == 1 && problem.w > 1 &&
         input.stride[1] == 1 && input.stride[3] == kRawChannels &&
         input.stride[2] == problem.w * kRawChannels;
}

/// Of the rows of a band that may come as they lie, or 0: where strips have whole ones.
int raw_bytes(const Problem& problem, const KernelShape& shape, Operands operands,
              const Bands& bands) {
  constexpr int kLeastItems = 64;  // fewer leave most threads with nothing to stage
  const int items = raw_items(bands, shape.dense);
  if (!may_stage_raw(shape, operands) || !has_raw_rows(problem) || items < kLeastItems ||
      items > kRawItems * 128 || row_chunks(problem, shape) != bands.chunks)
    return 0;
  const int64_t met = (bands.positions / bands.output_rows - 1) * problem.stride_w + kUnitColumns;
  const int64_t pixels =
      (bands.rows - 1) * problem.w + std::max(met, problem.padding_left + problem.w);
  // They begin amid 16 bytes, perhaps, and pixels amid words, of which one more is read.
  return static_cast<int>(round_up(pixels * kRawPixelBytes + kUnitBytes + 4, int64_t{kUnitBytes}));
}

/// Whether a band may have several rows of outputs: those of all warpgroups are near each other, and all rows of the input
/// between those that windows meet are met, too.
bool may_join_rows(const Problem& problem, const KernelShape& shape) {
  const int64_t rows = kMostWarpgroups * int64_t{shape.columns} / problem.q;
  return problem.stride_h <= kDenseTaps &&
         std::abs(double(problem.output.stride[2])) * double(rows) < double(kMaxSpan);
}

/// With rows that come as they lie, where they may and there is room, or else without, but for kernels that have no
/// others.
bool fit_rows(const Problem& problem, const KernelShape& shape, Operands operands, const Chip& chip,
              StemChoice& choice) {
  choice.bands.raw_bytes = raw_bytes(problem, shape, operands, choice.bands);
  if (choice.bands.raw_bytes > 0 && fit_block(problem, shape, operands, chip, choice)) return true;
  choice.bands.raw_bytes = 0;
  return !is_dense_raw(shape, operands) && fit_block(problem, shape, operands, chip, choice);
}

/// Those that are few, as reading them one by one is what each block has to do, and packing is done once for all.
bool gathers_filters(const KernelShape& shape, Operands operands, const StemChoice& choice) {
  constexpr int kMostElements = 80;  // of a thread
  const int units = 2 * choice.tile.tile.steps[0].count;
  const int elements = choice.sets * shape.filters * units * traits(operands).unit_elements;
  return operands != Operands::kSplit && units <= kMostGatheredUnits &&
         elements <= kMostElements * shape.multiplying_threads();
}

template <class BandLayout>
bool fit_strip(const Problem& problem, Operands operands, const KernelShape& shape,
               const Chip& chip, StemChoice& choice) {
  for (const int chunks : chunks_of(problem, shape, operands, chip)) {
    BandLayout layout(problem, operands, staged_columns(problem, shape, chunks), chunks);
    if (!layout.fits()) return false;
    if (!layout.fits_staging(operands)) continue;
    layout.pair(choice.tile.order);
    choice.bands = layout.bands;
    choice.bands.output_rows = output_rows(problem, shape);
    choice.bands.rows += (choice.bands.output_rows - 1) * static_cast<int>(problem.stride_h);
    choice.tile.tile = tile_of(problem, shape, choice.bands, layout.total_steps());
    // Blocks count their rows, which are fewer.
    const Tile& tile = choice.tile.tile;
    if (tile_count(problem, tile, shape) * tile.rows >= double(kMaxTiles)) continue;
    for (const bool stored : {true, false}) {
      if (stored ? !stores_boxes(problem, shape, operands) : choice.bands.output_rows > 1) continue;
      choice.tile.tile.stored = stored;
      if (!fit_rows(problem, shape, operands, chip, choice)) continue;
      choice.gathers = gathers_filters(shape, operands, choice);
      return true;
    }
  }
  return false;
}

}  // namespace

bool finishes_in_registers(const Problem& problem) {
  return !problem.has_residual && is_short(problem.activation);
}

bool has_dense_windows(const Problem& problem) {
  return problem.r == kDenseTaps && problem.s == kDenseTaps &&
         problem.c_per_group() <= kDenseChannels;
}

bool has_runs(const Problem& problem) {
  // Nine products are too few for it: see refuse_operands().
  const bool is_refused = problem.dtype == IM2WIN_FLOAT32 && problem.c_per_group() == 1;
  return !is_refused && problem.groups == 1 && has_dense_windows(problem) && suits_runs(problem);
}

Problem as_computed(const Problem& problem) {
  Problem computed = problem;
  if (operands_of(problem) == Operands::kTf32 && has_runs(problem))
    computed.math = IM2WIN_MATH_FP32;
  return computed;
}

bool has_pairs(const Problem& problem, const KernelShape& shape) {
  const Tensor& input = problem.input;
  const auto is_even = [&](int dimension) {
    return input.size[dimension] == 1 || input.stride[dimension] % 2 == 0;
  };
  return problem.c_per_group() == kDenseChannels && problem.stride_w <= kMostPairStep &&
         input.stride[3] == 1 && problem.w % 2 == 0 && is_even(0) && is_even(1) && is_even(2) &&
         (!shape.runs || problem.q % 2 == 0);
}

int output_rows(const Problem& problem, const KernelShape& shape) {
  const Operands operands = operands_of(problem);
  const bool has_several = is_dense_raw(shape, operands) && has_raw_rows(problem) &&
                           stores_boxes(problem, shape, operands) && may_join_rows(problem, shape);
  return has_several ? std::max(static_cast<int>(shape.columns / problem.q), 1) : 1;
}

Problem rows_of(const Problem& problem, const KernelShape& shape) {
  Problem rows = problem;
  if (!shape.runs) {
    rows.p = ceil_div(problem.p, int64_t{output_rows(problem, shape)});
    return rows;
  }
  rows.q = run_pixels(shape, static_cast<int>(element_bytes(problem.dtype)));
  rows.p = ceil_div(problem.p * problem.q, rows.q);
  return rows;
}

bool is_faster(const Problem& problem) {
  constexpr int64_t kColumns = kNarrow.columns, kFewFilters = 16;
  if (problem.r < problem.stride_h || problem.s == 1) return false;
  const bool has_few_filters = problem.k_per_group() < kFewFilters;
  const bool has_rows = problem.output.stride[3] == 1;
  const bool is_tf32 = operands_of(problem) == Operands::kTf32;
  if (has_runs(problem)) return has_rows || !has_few_filters;
  if (has_few_filters) return false;
  if (output_rows(problem, kDenseRaw) > 1) return true;
  const double idle = double(round_up(problem.q, kColumns) - problem.q) / double(problem.q);
  if (problem.stride_w > 1) return idle <= 1;
  if (problem.c_per_group() == 1) return false;
  return idle <= (is_quick(problem) ? 1 : has_rows && !is_tf32 ? 0.05 : 0.75);
}

SharedLayout stem_layout(const StemChoice& choice, const KernelShape& shape, Operands operands) {
  const int32_t step = traits(operands).parts * 2 * shape.filters * kUnitBytes;
  SharedLayout layout{};
  layout.part = choice.bands.part_bytes;
  layout.slab = choice.bands.bytes;
  layout.filters = kBarrierBytes;
  layout.box = shape.columns * kRowBytes;
  layout.boxes = static_cast<int32_t>(round_up(
      layout.filters + choice.sets * choice.tile.tile.steps[0].count * step, kBarrierBytes));
  const int32_t boxes =
      choice.tile.tile.stored ? shape.multiplying_warpgroups * boxes_of_set(shape, operands) : 0;
  layout.slabs = layout.boxes + boxes * layout.box;
  layout.raw = layout.slabs + choice.bands.stages * layout.slab;
  layout.raw_stage = choice.bands.raw_bytes;
  layout.patches = layout.raw + kRawStages * layout.raw_stage;
  if (shape.pixel_major) {  // there is no table of columns, but one of filters
    layout.columns = layout.patches + shape.multiplying_warpgroups * kPixelPatchBytes;
    const auto end = static_cast<int32_t>(operands == Operands::kSplit ? sizeof(FilterEnd<true>)
                                                                       : sizeof(FilterEnd<false>));
    layout.total = layout.columns + choice.sets * shape.filters * end;
    return layout;
  }
  if (shape.runs) {
    const int32_t patches = shape.multiplying_warpgroups * shape.filters * run_pitch(shape);
    layout.biases = layout.patches + patches * moved_bytes(operands);
    layout.total =
        layout.biases + choice.sets * shape.filters * static_cast<int32_t>(sizeof(float));
    return layout;
  }
  layout.patch = static_cast<int32_t>(sizeof(Patch));
  layout.row_ends = layout.patches + patch_bytes(shape);
  const bool has_row_ends = moved_bytes(operands) == 4 && !choice.tile.tile.stored;
  layout.biases = layout.row_ends + (has_row_ends ? shape.multiplying_threads() * kUnitBytes : 0);
  layout.columns = layout.biases + choice.sets * shape.filters * static_cast<int>(sizeof(float));
  layout.total = layout.columns +
                 table_columns(choice.tile.tile, shape) * static_cast<int32_t>(sizeof(ColumnPlace));
  return layout;
}

bool choose_stem(const Problem& problem, Operands operands, const KernelShape* shapes, int count,
                 const Chip& chip, StemChoice& choice) {
  choice.tile.kernel = -1;
  // More taps than that are more steps than there may be; what is counted of fewer fits an int.
  if (problem.r * problem.s > kMaxSteps * 16) return false;
  for (int i = 0; i < count; ++i) {
    if (!suits(problem, shapes[i], operands)) continue;
    StemChoice candidate{};
    candidate.tile.kernel = i;
    candidate.tile.cost = cost(problem, shapes[i]);
    if (choice.tile.kernel >= 0 && candidate.tile.cost >= choice.tile.cost) continue;
    const auto fit = shapes[i].dense ? fit_strip<DenseLayout> : fit_strip<SharedBandLayout>;
    if (fit(rows_of(problem, shapes[i]), operands, shapes[i], chip, candidate)) choice = candidate;
  }
  return choice.tile.kernel >= 0;
}

}  // namespace im2win::cuda::fused::stem
