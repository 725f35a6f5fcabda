#include "cuda/fused/stem/tile.hpp"

#include <algorithm>

#include "checked.hpp"

namespace im2win::cuda::fused::stem {
namespace {

struct TapUnit {
  int offset;  // in a band, in units
  FilterUnit filter;
};

/// Lays the units that a band's filters meet out in steps.
class Layout {
 public:
  /// `columns` of a strip have positions.
  Layout(const Problem& problem, Operands operands, int columns, int chunks)
      : channels_(static_cast<int>(problem.c_per_group())),
        unit_rows_(unit_rows(operands)),
        taps_(static_cast<int>(problem.r)),
        column_groups_(static_cast<int>(ceil_div(problem.s, int64_t{kUnitColumns}))),
        step_(static_cast<int>(problem.stride_w)),
        shift_(kUnitColumns / step_) {
    const int stride = static_cast<int>(problem.stride_h);
    // At stride 1 units of two rows overlap, and a window meets every other band.
    const bool overlaps = stride < unit_rows_;
    tap_rows_ = overlaps ? unit_rows_ : stride;
    bands.apart = overlaps ? unit_rows_ : 1;
    bands.chunks = chunks;
    bands.count = static_cast<int>(ceil_div(taps_, tap_rows_));
    bands.rows = std::min(tap_rows_, static_cast<int>(round_up(taps_, unit_rows_)));
    bands.units = bands.rows / unit_rows_ * channels_;
    bands.positions = positions_pitch(operands, columns + (column_groups_ - 1) * shift_);
    bands.part_bytes = bands.units * bands.positions * kUnitBytes;
    bands.bytes = traits(operands).parts * bands.part_bytes;
    const int steps = static_cast<int>(ceil_div(tap_units(), 2));
    bands.batches = steps <= kMaxBatch ? 1 : kMaxBandBatches;
    bands.batch_steps = std::max(static_cast<int>(ceil_div(steps, bands.batches)), 2);
    if (bands.batch_steps > kMaxBatch) bands.batch_steps = max_batch_steps(operands);
    fits_ = steps <= band_steps() && total_steps() <= kMaxSteps;
  }

  int band_steps() const { return bands.batches * bands.batch_steps; }
  int total_steps() const { return bands.count * band_steps(); }
  bool fits() const { return fits_; }
  /// Whether a warpgroup can stage a band.
  bool fits_staging(Operands operands) const {
    return bands.units * line_runs(bands, operands, step_) <= 128 * thread_runs(operands, step_);
  }

  void pair(FilterOrder& order) {
    for (int i = 0; i < band_steps(); ++i) {
      const int first = unit(2 * i).offset;
      bands.steps[i] = {static_cast<uint16_t>(first),
                        static_cast<uint16_t>(unit(2 * i + 1).offset - first)};
    }
    for (int i = 0; i < 2 * total_steps(); ++i) {
      const int band = i / 2 / band_steps();
      order.unit[0][i / 2][i % 2] = unit_at(band * tap_rows_, unit(i % (2 * band_steps())).filter);
    }
  }

  Bands bands{};

 private:
  /// Threads that put units of as many runs at the same time meet the same banks with every other one of a
  /// line's. They have one of each line before the next, which are an odd number of units apart.
  int positions_pitch(Operands operands, int positions) const {
    const int even = static_cast<int>(round_up(positions, int64_t{2 * kUnitColumns}));
    return run_positions(operands, step_) > 1 ? even + 1 : positions;
  }

  /// Of a band.
  int tap_units() const { return bands.units * column_groups_; }

  /// In the order of offsets, so that a step's second unit never lies before its first. Past the last, that
  /// one again, with no filter.
  TapUnit unit(int i) const {
    const int at = std::min(i, tap_units() - 1);
    const int line = at / column_groups_, group = at % column_groups_;
    const int row = i > at ? -1 : line / channels_ * unit_rows_;
    return {line * bands.positions + group * shift_,
            {static_cast<int16_t>(row), static_cast<int16_t>(group * kUnitColumns),
             static_cast<int16_t>(line % channels_)}};
  }

  /// Of the filter, if it has that row.
  FilterUnit unit_at(int row, FilterUnit unit) const {
    const int tap = row + unit.row;
    unit.row = unit.row < 0 || tap >= taps_ ? int16_t{-1} : static_cast<int16_t>(tap);
    return unit;
  }

  int channels_, unit_rows_, taps_, column_groups_, step_, shift_, tap_rows_ = 0;
  bool fits_ = false;
};

int64_t row_chunks(const Problem& problem, const KernelShape& shape) {
  return ceil_div(problem.q, int64_t{shape.columns});
}

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

Tile tile_of(const Problem& problem, const KernelShape& shape, const Layout& layout) {
  Tile tile{};
  tile.columns = strip_columns(problem, shape, layout.bands.chunks);
  tile.images = 1;
  tile.rows = shape.multiplying_warpgroups;
  tile.pitch = tile.positions = tile.positions_pitch = tile.plane_positions =
      layout.bands.positions;
  tile.planes = 1;
  tile.group_stride = 8;
  tile.column_pitch = tile.warpgroup_columns = shape.columns;
  tile.unit_channels = 1;
  tile.unit_columns = kUnitColumns;
  tile.units = static_cast<int>(problem.c_per_group());
  tile.chunks = tile.row_units = 1;
  tile.tap_groups = tile.column_groups = tile.full_groups = 1;
  tile.group_rows = static_cast<int>(problem.r);
  tile.row_step = 1;
  tile.steps[0].count = layout.total_steps();
  tile.resident = 1;
  return tile;
}

/// As many bands as there is room for; more than those of so many rows, lest those who stage wait for
/// a row's end.
bool fit_bands(const KernelShape& shape, Operands operands, const Chip& chip, int rows,
               StemChoice& choice) {
  const int least = choice.bands.of_rows(rows) + 1;
  for (choice.bands.stages = kMaxBands; choice.bands.stages >= least; --choice.bands.stages)
    if (stem_layout(choice, shape, operands).total <= chip.shared_bytes) return true;
  return false;
}

/// All filters of a group, so that its input is staged once; or those of a tile. Split ones have
/// scales, which are in registers. Of bands so many that no warpgroup waits for another's row; or, if there
/// is no room, for one row.
bool fit_block(const Problem& problem, const KernelShape& shape, Operands operands,
               const Chip& chip, StemChoice& choice) {
  constexpr int64_t kMaxSets = 8;
  const int64_t all = ceil_div(problem.k_per_group(), int64_t{shape.filters});
  if (all <= kMaxSets && operands != Operands::kSplit) {
    choice.sets = static_cast<int32_t>(all);
    if (fit_bands(shape, operands, chip, shape.multiplying_warpgroups, choice)) return true;
  }
  choice.sets = 1;
  return fit_bands(shape, operands, chip, 1, choice);
}

/// Of a row of outputs, in columns of products: those of all filters, and what each piece takes beside.
double cost(const Problem& problem, const KernelShape& shape) {
  constexpr double kPiece = 24;
  const int64_t tiles = ceil_div(problem.k_per_group(), int64_t{shape.filters});
  return double(tiles * row_chunks(problem, shape)) * (2 * shape.sums() + kPiece);
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
         adds_simply(problem);
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

/// Strips as wide as whole rows, whose parts leave for memory together, or else as can be.
bool fit_strip(const Problem& problem, Operands operands, const KernelShape& shape,
               const Chip& chip, StemChoice& choice) {
  const int64_t all = row_chunks(problem, shape);
  for (int64_t most = kMaxChunks; most > 0; --most) {
    const auto chunks = static_cast<int>(ceil_div(all, ceil_div(all, most)));
    Layout layout(problem, operands, staged_columns(problem, shape, chunks), chunks);
    if (!layout.fits()) return false;
    if (!layout.fits_staging(operands)) continue;
    layout.pair(choice.tile.order);
    choice.bands = layout.bands;
    choice.tile.tile = tile_of(problem, shape, layout);
    if (tile_count(problem, choice.tile.tile, shape) >= double(kMaxTiles)) continue;
    for (const bool stored : {true, false}) {
      if (stored && !stores_boxes(problem, shape, operands)) continue;
      choice.tile.tile.stored = stored;
      if (fit_block(problem, shape, operands, chip, choice)) return true;
    }
  }
  return false;
}

}  // namespace

bool is_faster(const Problem& problem) {
  constexpr int64_t kColumns = 56, kFewFilters = 16;
  if (problem.r < problem.stride_h || problem.s == 1 || problem.k_per_group() < kFewFilters)
    return false;
  const double idle = double(round_up(problem.q, kColumns) - problem.q) / double(problem.q);
  if (problem.stride_w > 1) return idle <= 1;
  const bool writes_rows = problem.output.stride[3] == 1 && operands_of(problem) != Operands::kTf32;
  return problem.c_per_group() > 1 && idle <= (writes_rows ? 0.05 : 0.75);
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
  layout.patches = layout.slabs + choice.bands.stages * layout.slab;
  if (shape.pixel_major) {  // there is no table of columns, but one of filters
    layout.columns = layout.patches + shape.multiplying_warpgroups * kPixelPatchBytes;
    layout.total =
        layout.columns + choice.sets * shape.filters * static_cast<int32_t>(sizeof(FilterEnd));
    return layout;
  }
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
    if (shapes[i].pixel_major && !suits_pixel_major(problem, operands)) continue;
    StemChoice candidate{};
    candidate.tile.kernel = i;
    candidate.tile.cost = cost(problem, shapes[i]);
    if (choice.tile.kernel >= 0 && candidate.tile.cost >= choice.tile.cost) continue;
    if (fit_strip(problem, operands, shapes[i], chip, candidate)) choice = candidate;
  }
  return choice.tile.kernel >= 0;
}

}  // namespace im2win::cuda::fused::stem
