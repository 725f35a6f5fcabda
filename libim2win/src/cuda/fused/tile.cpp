#include "cuda/fused/tile.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "checked.hpp"
#include "cuda/fused/cost.hpp"
#include "cuda/fused/shared.hpp"
#include "cuda/fused/taps.hpp"
#include "status.hpp"

namespace im2win::cuda::fused {
namespace {

/// Of counts that fit an int.
int count_of(int64_t things, int64_t each) { return static_cast<int>(ceil_div(things, each)); }

int unit_channels(const Problem& problem, OperandTraits traits) {
  const int64_t c = std::min<int64_t>(problem.c_per_group(), traits.unit_elements);
  return problem.s > 1 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(c)))
                       : traits.unit_elements;
}

/// Each phase of the strides must have some row and column.
bool has_input_boxes(const Problem& problem, Operands operands) {
  return problem.stride_h * problem.stride_w <= kMaxPhases && problem.h >= problem.stride_h &&
         problem.w >= problem.stride_w && has_boxes(problem.input, moved_bytes(operands));
}

/// What a box takes on its way out, it takes in shared memory: bias and a bound from below.
bool has_output_boxes(const Problem& problem, Operands operands) {
  return !problem.has_residual && problem.alpha == 1 &&
         (problem.activation == IM2WIN_IDENTITY || problem.activation == IM2WIN_RELU) &&
         has_boxes(problem.output, moved_bytes(operands));
}

/// Tries all tiles, and keeps the cheapest.
class Search {
 public:
  Search(const Problem& problem, Operands operands, const Chip& chip, TileChoice& best)
      : problem_(problem),
        operands_(operands),
        traits_(traits(operands)),
        chip_(chip),
        best_(best),
        unit_channels_(unit_channels(problem, traits_)),
        unit_columns_(traits_.unit_elements / unit_channels_),
        copies_(operands != Operands::kSplit && unit_columns_ == 1 &&
                problem.input.stride[1] == 1 && problem.c_per_group() % unit_channels_ == 0),
        cost_(problem, operands, chip, copies_),
        boxes_(chip.bulk_copies && copies_ && has_input_boxes(problem, operands)),
        stores_(boxes_ && has_output_boxes(problem, operands)),
        raw_column_(raw_column_elements(problem)) {}

  void try_kernel(int index, const KernelShape& shape) {
    kernel_ = index;
    shape_ = shape;
    const int64_t channel_units = ceil_div(problem_.c_per_group(), int64_t{unit_channels_});
    for (int units = 1; units <= 8; units *= 2) {
      if (units > 1 && units / 2 >= channel_units) break;
      for (const bool rows_apart : {false, true}) {
        for (const Columns how : {Columns::kShared, Columns::kApart, Columns::kBySlabs}) {
          if (how == Columns::kBySlabs && !(boxes_ && problem_.s > 1)) continue;
          TapColumns columns;
          if (!arrange_columns(problem_, unit_columns_, how, columns)) continue;
          const TapRows rows(problem_, rows_apart);
          if (rows_apart && rows.groups == 1) continue;
          try_slab(static_cast<int>(ceil_div(channel_units, int64_t{units})), units, rows, columns);
        }
      }
    }
  }

  /// False if no kernel can take the problem.
  bool finish() {
    if (best_.kernel < 0) return false;
    pair_units(best_columns_, best_rows_, best_.tile, best_.order);
    return true;
  }

 private:
  void try_slab(int chunks, int units, const TapRows& rows, const TapColumns& columns) {
    constexpr int64_t kMaxSlabs = int64_t{1} << 20;
    if (int64_t{rows.groups} * columns.groups * chunks > kMaxSlabs) return;
    tile_ = {};
    tile_.unit_channels = unit_channels_;
    tile_.unit_columns = unit_columns_;
    tile_.units = units;
    tile_.chunks = chunks;
    tile_.row_units = 1;
    tile_.tap_groups = rows.groups * columns.groups;
    tile_.column_groups = columns.groups;
    tile_.group_rows = rows.rows;
    tile_.row_step = rows.step;
    tile_.full_groups = rows.full * columns.groups;
    tile_.planes = columns.planes;
    std::copy(std::begin(columns.origin), std::end(columns.origin), tile_.origin);
    for (int kind = 0; kind < 2; ++kind)
      tile_.steps[kind].count = count_of((rows.rows - kind) * columns.count * units, 2);
    if (tile_.steps[0].count > kMaxSteps) return;

    for (const bool boxed : {false, true}) {
      if (boxed ? !takes_boxes() : columns.groups > 1) continue;
      tile_.row_units = boxed ? units : 1;
      const int q = static_cast<int>(problem_.q);
      for (int parts = 1; parts <= 8; ++parts) {
        const int width = count_of(q, parts);
        try_columns(width, width + columns.extra, false, rows, columns);
        if (width <= 8) break;
      }
      try_columns(8, 8 + columns.extra, true, rows, columns);
      if (!boxed) try_run(rows, columns);
    }
  }

  /// A row has all units of a slab; other groups' channels may be anything, and are not multiplied.
  bool takes_boxes() const {
    return boxes_ && tile_.units > 1 &&
           (problem_.groups == 1 || problem_.c_per_group() % (tile_.units * unit_channels_) == 0);
  }

  void try_run(const TapRows& rows, const TapColumns& columns) {
    tile_.images = 1;
    tile_.run = shape_.block_columns();
    tile_.columns = static_cast<int>(problem_.q);
    tile_.pitch = tile_.columns + columns.extra;
    tile_.rows = count_of(tile_.pitch - 1 + tile_.run, tile_.pitch);
    tile_.group_stride = 8;
    tile_.column_pitch = tile_.pitch;
    tile_.warpgroup_step = shape_.filters == 128 ? 0 : shape_.columns;
    tile_.warpgroup_columns = shape_.columns;
    if (problem_.p * tile_.pitch >= kMaxTiles) return;
    try_planes(tile_.run + int64_t{rows.extra()} * tile_.pitch + columns.extra, rows, columns);
  }

  void try_columns(int width, int pitch, bool strip, const TapRows& rows,
                   const TapColumns& columns) {
    tile_.run = 0;
    // What leaves as a box is whole rows of each warpgroup.
    const int halves = tile_.boxed() && shape_.filters < 128 ? 2 : 1;
    const int capacity = shape_.block_columns() / halves;
    const int lines = strip ? capacity / 8 : (capacity + pitch - width) / pitch;
    const int p = static_cast<int>(problem_.p);
    for (int images = 1; images <= std::min<int64_t>(lines, problem_.n); ++images) {
      if (images > 1 && lines / images * halves < p && images * p > 4 * lines * halves) break;
      if (images * std::abs(problem_.input.stride[0]) >= kMaxSpan) break;
      const int most = std::min(lines / images * halves, p);
      tile_.rows = static_cast<int>(round_up(count_of(p, count_of(p, most)), halves));
      tile_.images = images;
      tile_.columns = std::min(width, static_cast<int>(problem_.q));
      tile_.pitch = pitch;
      tile_.group_stride = strip ? pitch : 8;
      tile_.column_pitch = strip ? 8 : pitch;
      divide_columns(strip, halves);
      try_planes(int64_t{tile_.rows + rows.extra()} * tile_.images * tile_.pitch, rows, columns);
    }
  }

  /// Among warpgroups: rows, or columns wherever they are in them.
  void divide_columns(bool strip, int halves) {
    const int lines = tile_.rows / halves * tile_.images;
    tile_.warpgroup_columns = halves == 2 ? lines * tile_.column_pitch : shape_.columns;
    tile_.warpgroup_step = shape_.filters == 128 ? 0
                           : halves == 2         ? lines * tile_.pitch
                           : strip               ? shape_.columns / 8 * tile_.pitch
                                                 : shape_.columns;
  }

  void try_planes(int64_t plane_positions, const TapRows& rows, const TapColumns& columns) {
    constexpr int kMaxPositions = 16384;
    if (plane_positions * tile_.planes > kMaxPositions) return;
    tile_.box_rows = tile_.rows + rows.extra();
    tile_.plane_positions = static_cast<int>(
        tile_.boxed() ? round_up(plane_positions, kSwizzlePositions) : plane_positions);
    tile_.positions = tile_.planes * tile_.plane_positions;
    tile_.positions_pitch = tile_.boxed() ? tile_.positions : tile_.positions | 1;
    tile_.overrun = overrun(rows, columns);
    tile_.raw = {};
    if (tile_count(problem_, tile_, shape_) >= double(kMaxTiles) ||
        !has_near_outputs(problem_.output) ||
        (problem_.has_residual && !has_near_outputs(problem_.residual)))
      return;
    if (tile_.boxed()) return try_boxes(rows, columns);
    try_stages(rows, columns);
    if (!chip_.bulk_copies || copies_ || !has_raw_lines()) return;
    tile_.raw.stages = kMaxRawStages;
    tile_.raw.channels = raw_column_ > 1
                             ? 1
                             : static_cast<int>(std::min<int64_t>(tile_.units * unit_channels_,
                                                                  problem_.c_per_group()));
    for (const bool rows_apart : {false, true}) {
      if (rows_apart && !rows_are_aligned()) break;
      tile_.raw.rows = rows_apart ? position_rows() : 1;
      tile_.raw.pitch = raw_pitch(rows_apart);
      try_stages(rows, columns);
    }
  }

  void try_boxes(const TapRows& rows, const TapColumns& columns) {
    if (std::max({tile_.pitch, tile_.images, tile_.box_rows}) > kMaxBox) return;
    for (const bool stored : {false, true}) {
      if (stored &&
          !(stores_ && (problem_.groups == 1 || problem_.k_per_group() % shape_.filters == 0)))
        break;
      tile_.stored = stored;
      try_stages(rows, columns);
    }
    tile_.stored = 0;
  }

  /// Channels that are neighbours are all in one slab's lines. Lines of a channel begin equally far
  /// past 16 bytes. Pixels are counted in 32 bits, those of rows below an image, too.
  bool has_raw_lines() const {
    const int64_t word = kUnitBytes / moved_bytes(operands_);
    if ((problem_.h + position_rows() * problem_.stride_h) * problem_.w > kMaxSpan) return false;
    if (tile_.images > 1 && problem_.input.stride[0] % word != 0) return false;
    return raw_column_ == 1 || (raw_column_ > 1 && tile_.chunks == 1 && problem_.groups == 1);
  }

  bool rows_are_aligned() const {
    return problem_.stride_h * problem_.w * raw_column_ * moved_bytes(operands_) % kUnitBytes == 0;
  }

  /// Of the last column, shifted by the tap that shifts most.
  int overrun(const TapRows& rows, const TapColumns& columns) const {
    const int column = tile_.warpgroup_step + (shape_.columns / 8 - 1) * tile_.group_stride + 7;
    const int tap = (tile_.planes - 1) * tile_.plane_positions +
                    rows.extra() * tile_.images * tile_.pitch + columns.extra;
    return std::max(column + tap + 1 - tile_.positions, 0);
  }

  /// Rows of an image that a tile's positions meet.
  int position_rows() const {
    return tile_.run > 0 ? count_of(tile_.pitch - 1 + tile_.plane_positions, tile_.pitch)
                         : tile_.plane_positions / (tile_.images * tile_.pitch);
  }

  /// The pixels of the longest line, and what alignment adds, in elements.
  int raw_pitch(bool rows_apart) const {
    const int64_t stride_w = problem_.stride_w, row = problem_.stride_h * problem_.w;
    const int64_t width = (tile_.pitch - 1) * stride_w + reach_right(problem_, tile_) + 1;
    int64_t pixels = std::min(width, problem_.w);
    if (!rows_apart) {
      const int64_t positions = tile_.plane_positions - 1;
      const int64_t rows = ceil_div(positions, int64_t{tile_.pitch});
      pixels = tile_.run > 0 ? positions * stride_w +
                                   rows * std::max<int64_t>(row - tile_.pitch * stride_w, 0) +
                                   reach_right(problem_, tile_) + problem_.padding_left + 1
                             : (position_rows() - 1) * row + width;
      pixels = std::min(pixels, problem_.h * problem_.w);
    }
    const int64_t word = kUnitBytes / moved_bytes(operands_);
    constexpr int64_t kTooMany = int64_t{1} << 20;
    return static_cast<int>(std::min(round_up(pixels * raw_column_ + word - 1, word), kTooMany));
  }

  void try_stages(const TapRows& rows, const TapColumns& columns) {
    if (!fit_stages()) return;
    const double cost = cost_.cycles(tile_, shape_);
    if (best_.kernel >= 0 && cost >= best_.cost) return;
    best_.kernel = kernel_;
    best_.tile = tile_;
    best_.tile.lead = lead();
    best_.cost = cost;
    best_columns_ = columns;
    best_rows_ = rows;
  }

  /// Whether the offsets of a tile's outputs from its first fit 32 bits.
  bool has_near_outputs(const Tensor& tensor) const {
    const double reach = double(std::abs(tensor.stride[0])) * tile_.images +
                         double(std::abs(tensor.stride[2])) * tile_.rows +
                         double(std::abs(tensor.stride[3])) * tile_.columns;
    return reach < double(kMaxSpan);
  }

  /// As many stages as shared memory holds, up to what hides latency.
  bool fit_stages() {
    const bool one_filter_tile = problem_.groups == 1 && problem_.k <= shape_.filters;
    for (tile_.slab_stages = 3; tile_.slab_stages >= 2; --tile_.slab_stages) {
      tile_.resident = one_filter_tile && batch_count(tile_, traits_) <= kMaxFilterStages;
      tile_.filter_stages =
          tile_.resident ? static_cast<int>(batch_count(tile_, traits_)) : kMaxFilterStages;
      if (fits()) return true;
      tile_.resident = 0;
      for (tile_.filter_stages = 8; tile_.filter_stages > tile_.slab_stages; --tile_.filter_stages)
        if (fits()) return true;
    }
    return false;
  }

  /// Half a tile, as far as what the first warpgroup uses need not be handed back by the second;
  /// always less than a tile, so that a block with one tile gets that far.
  int lead() const {
    const int64_t slabs = tile_.slabs();
    const int64_t ahead_in_slabs =
        (tile_.slab_stages - 1) * std::max<int64_t>(batch_count(tile_, traits_) / slabs, 1);
    const int64_t ahead_in_filters =
        tile_.resident ? batch_count(tile_, traits_) : tile_.filter_stages - 1;
    return static_cast<int>(
        std::min({batch_count(tile_, traits_) / 2, ahead_in_slabs, ahead_in_filters}));
  }

  bool fits() const {
    return tile_.raw_lines() * tile_.raw.pitch <= chip_.shared_bytes &&
           shared_layout(tile_, shape_, operands_).total <= chip_.shared_bytes;
  }

  const Problem& problem_;
  Operands operands_;
  OperandTraits traits_;
  Chip chip_;
  TileChoice& best_;
  int unit_channels_, unit_columns_;
  bool copies_;
  CostModel cost_;
  bool boxes_, stores_;
  int64_t raw_column_;
  int kernel_ = -1;
  KernelShape shape_ = {};
  Tile tile_ = {};
  TapColumns best_columns_;
  TapRows best_rows_;
};

}  // namespace

bool has_boxes(const Tensor& tensor, int64_t element_bytes) {
  constexpr int64_t kMaxStride = int64_t{1} << 38;  // twice it is a stride of phases
  const auto steps = [&](int dimension) {
    const int64_t bytes = tensor.stride[dimension] * element_bytes;
    return tensor.size[dimension] <= 1 ||
           (bytes > 0 && bytes < kMaxStride && bytes % kUnitBytes == 0);
  };
  return (tensor.stride[1] == 1 || tensor.size[1] == 1) && steps(0) && steps(2) && steps(3);
}

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

double tile_count(const Problem& problem, const Tile& tile, const KernelShape& shape) {
  const double pixel_tiles = double(row_tiles(problem, tile)) * double(column_tiles(problem, tile));
  return double(ceil_div(problem.k_per_group(), int64_t{shape.filters})) * double(problem.groups) *
         double(ceil_div(problem.n, int64_t{tile.images})) * pixel_tiles;
}

int64_t batch_count(const Tile& tile, OperandTraits traits) {
  int64_t batches = 0;
  for (int kind = 0; kind < 2; ++kind) {
    const int groups = kind == 0 ? tile.full_groups : tile.tap_groups - tile.full_groups;
    const int steps = tile.steps[kind].count;
    batches += int64_t{groups} * (steps / traits.batch + steps % traits.batch);
  }
  return batches * tile.chunks;
}

bool choose_tile(const Problem& problem, Operands operands, const KernelShape* shapes, int count,
                 const Chip& chip, TileChoice& choice) {
  choice.kernel = -1;
  Search search(problem, operands, chip, choice);
  for (int i = 0; i < count; ++i) search.try_kernel(i, shapes[i]);
  return search.finish();
}

std::string describe(const Tile& tile) {
  return text(tile.images, " images x ", tile.rows, " x ", tile.columns, ", pitch ", tile.pitch,
              tile.run > 0                      ? " in runs"
              : tile.column_pitch == tile.pitch ? ""
                                                : " in strips",
              tile.stored    ? ", boxes in and out"
              : tile.boxed() ? ", boxes in"
                             : "",
              ", ", tile.planes, " planes, ", tile.positions, " positions x ", tile.units,
              " units of ", tile.unit_channels, " x ", tile.unit_columns, ", ", tile.raw.stages,
              " x ", tile.raw.channels, " x ", tile.raw.rows, " raw lines of ", tile.raw.pitch,
              ", ", tile.tap_groups, " tap groups x ", tile.chunks, " chunks, ",
              tile.steps[0].count, " steps, ", tile.slab_stages, " slabs, ", tile.filter_stages,
              " filter stages", tile.resident ? " (resident)" : "");
}

}  // namespace im2win::cuda::fused
