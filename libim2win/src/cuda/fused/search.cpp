#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "checked.hpp"
#include "cuda/fused/cost.hpp"
#include "cuda/fused/raw_lines.hpp"
#include "cuda/fused/shared.hpp"
#include "cuda/fused/stages.hpp"
#include "cuda/fused/taps.hpp"
#include "cuda/fused/tile.hpp"
#include "epilogue.hpp"

namespace im2win::cuda::fused {
namespace {

/// Of counts that fit an int.
int count_of(int64_t things, int64_t each) { return static_cast<int>(ceil_div(things, each)); }

int unit_channels(const Problem& problem, OperandTraits traits) {
  const int64_t c = std::min<int64_t>(problem.c_per_group(), traits.unit_elements);
  return problem.s > 1 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(c)))
                       : traits.unit_elements;
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
        has_units_(operands != Operands::kSplit && unit_columns_ == 1 &&
                   problem.input.stride[1] == 1 && problem.c_per_group() % unit_channels_ == 0),
        copied_bytes_(unit_columns_ == 1 ? copied_bytes(problem, operands) : 0),
        cost_(problem, operands, chip, has_units_, copied_bytes_),
        boxes_(chip.bulk_copies && has_units_ && has_input_boxes(problem, operands)),
        stores_(boxes_ && has_output_boxes(problem, operands, 1)) {}

  void try_kernel(int index, const KernelShape& shape) {
    kernel_ = index;
    shape_ = shape;
    const int64_t channel_units = ceil_div(problem_.c_per_group(), int64_t{unit_channels_});
    if (shape.pixel_rows) return try_pixel_rows(channel_units);
    if (shape.pixel_major) return try_lines(channel_units);
    for (int units = 1; units <= 8; units *= 2) {
      if (has_zeros(units) && !may_have_zeros(units)) continue;
      for (const bool rows_apart : {false, true}) {
        for (const Columns how :
             {Columns::kShared, Columns::kInPairs, Columns::kApart, Columns::kBySlabs}) {
          if (how == Columns::kInPairs && problem_.s < 3) continue;
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
    best_.tile.filters_in_place = has_filter_boxes(problem_, operands_, best_.tile);
    return true;
  }

 private:
  /// Whether a slab of half as many units would have all channels.
  bool has_zeros(int units) const {
    return units > 1 && units / 2 * unit_channels_ >= problem_.c_per_group();
  }
  /// Boxes put them there, which takes long where every other pixel is skipped, and filters that come as boxes need no
  /// packing.
  bool may_have_zeros(int units) const {
    return boxes_ && problem_.groups == 1 && problem_.stride_w == 1 &&
           may_box_filters(problem_, operands_, units);
  }

  /// Slabs of rows of pixels, in runs, which have two units at least: a step is neighbours. Or of more than
  /// there are channels, zeros the last ones, where filters need no packing then. A run goes on to the next row at a
  /// word of pixels, or, as boxes have no two rows, at the next 64.
  void try_pixel_rows(int64_t channel_units) {
    const int pixels = row_pixels(problem_, operands_);
    const bool boxes = pixels == kWordPixels, apart = has_pixels_apart(problem_);
    const int64_t word = boxes ? kRowPixels : apart ? std::max(pixels, 2) : kWordPixels;
    const int64_t pitch = round_up(problem_.q, word);
    const bool has_kernel = boxes                  ? may_have_pixel_boxes(shape_)
                            : pixels > 1 && !apart ? may_have_pixel_words(shape_)
                                                   : may_have_loaded_pixels(shape_);
    TapColumns columns;
    if (pixels == 0 || !has_kernel || problem_.p * pitch >= kMaxTiles ||
        !arrange_columns(problem_, unit_columns_, Columns::kShared, columns))
      return;
    const TapRows rows(problem_, false);
    for (int units = 2; units <= kRowUnits; units *= 2) {
      const int chunks = count_of(channel_units, units);
      if (!start_slab(chunks, units, rows, columns) || !has_whole_slabs(problem_, tile_)) continue;
      tile_.pixel_rows = true;
      tile_.pixel_word = boxes ? 0 : pixels;
      if (units > 2 && has_zeros(units) && !has_filter_boxes(problem_, operands_, tile_)) continue;
      tile_.box_rows = 1;
      for (int run = shape_.columns; run >= shape_.least_columns; run -= 8) {
        start_pixels(static_cast<int>(pitch), run);
        if (is_near()) try_stored(boxes && has_output_boxes(problem_, operands_, 3), rows, columns);
      }
      if (apart) try_pixel_images(static_cast<int>(pitch), rows, columns);
    }
  }

  /// All pixels of several images, which are no rows of one.
  void try_pixel_images(int pitch, const TapRows& rows, const TapColumns& columns) {
    const int64_t pixels = problem_.p * pitch;
    for (int64_t images = 2; images <= problem_.n && images * pixels <= shape_.columns; ++images) {
      if (images * std::abs(problem_.input.stride[0]) >= kMaxSpan) break;
      start_pixels(pitch, shape_.columns);
      tile_.run = 0;
      tile_.images = static_cast<int>(images);
      tile_.rows = static_cast<int>(problem_.p);
      if (is_near()) try_stages(rows, columns);
    }
  }

  /// Windows from lines, for which positions are no more than a way to count: rows of pixels need no halo.
  void try_lines(int64_t channel_units) {
    TapColumns columns;
    if (unit_columns_ > 1 || !chip_.bulk_copies ||
        !arrange_columns(problem_, unit_columns_, Columns::kApart, columns))
      return;
    const int units = 2 * traits_.batch;  // a batch is a tap
    for (const bool rows_apart : {false, true}) {
      const TapRows rows(problem_, rows_apart);
      if ((rows_apart && rows.groups == 1) ||
          !start_slab(count_of(channel_units, units), units, rows, columns))
        continue;
      tile_.from_lines = 1;
      try_widths(rows, columns);
      try_run(rows, columns);
    }
  }

  void try_line_boxes(const TapRows& rows, const TapColumns& columns) {
    RawLines forms[kMaxRawForms];
    const int count = raw_forms(problem_, operands_, tile_, forms);
    for (int i = 0; i < count; ++i) {
      tile_.raw = forms[i];
      if (tile_.raw.boxed && tile_.raw.has_zeros_around) try_cluster(rows, columns);
    }
  }

  void start_pixels(int pitch, int columns) {
    start_run(pitch, columns);
    tile_.positions = static_cast<int>(round_up(columns, kRowPixels));
    tile_.plane_positions = tile_.positions_pitch = tile_.positions;
  }

  void try_slab(int chunks, int units, const TapRows& rows, const TapColumns& columns) {
    if (!start_slab(chunks, units, rows, columns)) return;
    for (const bool boxed : {false, true}) {
      if (boxed ? !takes_boxes() : columns.groups > 1 || has_zeros(units)) continue;
      tile_.row_units = boxed ? units : 1;
      try_widths(rows, columns);
      try_columns(8, 8 + columns.extra, true, rows, columns);
      if (!boxed) try_run(rows, columns);
    }
  }

  /// Rows shared out among tiles, so many that they fit, and some more.
  void try_widths(const TapRows& rows, const TapColumns& columns) {
    constexpr int kFew = 8, kNarrow = 8;
    const int q = static_cast<int>(problem_.q);
    const int least = count_of(q, row_capacity());
    const auto try_parts = [&](int parts) {
      const int width = count_of(q, parts);
      try_columns(width, width + columns.extra, false, rows, columns);
      return width;
    };
    for (int parts = least; parts < least + kFew; ++parts)
      if (try_parts(parts) <= kNarrow) break;
    // Of long rows those would all be about as wide as can be.
    for (int fewer = shape_.columns - 8; fewer >= shape_.least_columns; fewer -= 8) {
      const int parts = count_of(q, row_capacity() / shape_.columns * fewer);
      if (parts >= least + kFew) try_parts(parts);
    }
  }

  /// What all tiles with such slabs have in common. False if these are too many, or have too many steps.
  bool start_slab(int chunks, int units, const TapRows& rows, const TapColumns& columns) {
    constexpr int64_t kMaxSlabs = int64_t{1} << 20;
    if (int64_t{rows.groups} * columns.groups * chunks > kMaxSlabs) return false;
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
    return tile_.steps[0].count <= kMaxSteps;
  }

  /// A row has all units of a slab; other groups' channels may be anything, and are not multiplied. Sets of filters
  /// are for windows that take long to stage, which boxes do not.
  bool takes_boxes() const {
    return boxes_ && shape_.sets() == 1 && tile_.units > 1 && has_whole_slabs(problem_, tile_);
  }

  /// Images shared out among runs, so many that they fit, and one more.
  void try_run(const TapRows& rows, const TapColumns& columns) {
    const int pitch = static_cast<int>(problem_.q) + columns.extra;
    if (problem_.p * pitch >= kMaxTiles) return;
    const auto positions = static_cast<int>((problem_.p - 1) * pitch + problem_.q);
    const int least = count_of(positions, shape_.block_columns());
    for (int parts = least; parts < least + 2; ++parts) {
      start_run(pitch, product_columns(count_of(positions, parts)));
      try_planes(tile_.run + int64_t{rows.extra()} * tile_.pitch + columns.extra, rows, columns);
    }
  }

  /// Of a warpgroup, for so many columns of a tile.
  int product_columns(int columns) const {
    const int own = shape_.divides_columns() ? count_of(columns, 2) : columns;
    return std::clamp(static_cast<int>(round_up(own, 8)), shape_.least_columns, shape_.columns);
  }

  /// `columns`: of a warpgroup.
  void start_run(int pitch, int columns) {
    tile_.images = 1;
    tile_.run = shape_.divides_columns() ? 2 * columns : columns;
    tile_.columns = static_cast<int>(problem_.q);
    tile_.pitch = tile_.column_pitch = pitch;
    tile_.rows = count_of(tile_.pitch - 1 + tile_.run, tile_.pitch);
    tile_.group_stride = 8;
    tile_.product_columns = tile_.warpgroup_columns = columns;
    tile_.warpgroup_step = shape_.divides_columns() ? columns : 0;
  }

  /// Columns that a row may have: what leaves as a box is whole rows of each warpgroup.
  int row_capacity() const {
    return tile_.boxed() && shape_.divides_columns() ? shape_.columns : shape_.block_columns();
  }

  void try_columns(int width, int pitch, bool strip, const TapRows& rows,
                   const TapColumns& columns) {
    tile_.run = 0;
    const int capacity = row_capacity(), halves = shape_.block_columns() / capacity;
    const int lines = strip ? capacity / 8 : (capacity + pitch - width) / pitch;
    const int p = static_cast<int>(problem_.p);
    for (int images = 1; images <= std::min<int64_t>(lines, problem_.n); ++images) {
      if (images > 1 && lines / images * halves < p && images * p > 4 * lines * halves) break;
      if (images * std::abs(problem_.input.stride[0]) >= kMaxSpan) break;
      tile_.images = images;
      tile_.columns = std::min(width, static_cast<int>(problem_.q));
      tile_.pitch = pitch;
      tile_.group_stride = strip ? pitch : 8;
      tile_.column_pitch = strip ? 8 : pitch;
      // As many rows as fit, and fewer.
      const int least = count_of(p, std::min(lines / images * halves, p));
      for (int parts = least; parts <= std::min(least + 1, p); ++parts) {
        tile_.rows = static_cast<int>(round_up(count_of(p, parts), halves));
        divide_columns(strip, halves);
        try_planes(int64_t{tile_.rows + rows.extra()} * tile_.images * tile_.pitch, rows, columns);
      }
    }
  }

  /// Among warpgroups: rows, or columns wherever they are in them.
  void divide_columns(bool strip, int halves) {
    const int lines = tile_.rows / halves * tile_.images;
    const int last = (lines - 1) * tile_.column_pitch + tile_.columns;  // and those before it
    tile_.product_columns = product_columns(halves * last);
    tile_.warpgroup_columns = halves == 2 ? lines * tile_.column_pitch : tile_.product_columns;
    tile_.warpgroup_step = !shape_.divides_columns() ? 0
                           : halves == 2             ? lines * tile_.pitch
                           : strip                   ? tile_.product_columns / 8 * tile_.pitch
                                                     : tile_.product_columns;
  }

  void try_planes(int64_t plane_positions, const TapRows& rows, const TapColumns& columns) {
    constexpr int kMaxPositions = 16384;
    if (plane_positions * tile_.planes > kMaxPositions) return;
    tile_.box_rows = tile_.rows + rows.extra();
    tile_.plane_positions = static_cast<int>(
        tile_.boxed() ? round_up(plane_positions, kSwizzlePositions) : plane_positions);
    tile_.positions = tile_.planes * tile_.plane_positions;
    tile_.positions_pitch = tile_.boxed() ? tile_.positions : (tile_.positions + 1) | 1;
    tile_.overrun = overrun(rows, columns);
    tile_.raw = {};
    tile_.held = 0;
    if (!is_near()) return;
    if (tile_.from_lines) return try_line_boxes(rows, columns);
    if (tile_.boxed()) return try_boxes(rows, columns);
    try_stages(rows, columns);
    if (!chip_.bulk_copies || has_units_ || copied_bytes_ > 0) return;
    const bool can_be_held = this->can_be_held();
    tile_.held = can_be_held;
    RawLines forms[kMaxRawForms];
    const int count = raw_forms(problem_, operands_, tile_, forms);
    for (int i = 0; i < count; ++i) {
      tile_.raw = forms[i];
      tile_.raw.stages = kMaxRawStages;
      tile_.held = can_be_held && tile_.raw.has_zeros_around;
      tile_.channel_bits = tile_.raw.transposed() ? tile_.raw.phase_bits : 0;
      try_stages(rows, columns);
    }
    tile_.channel_bits = 0;
  }

  /// Whether the staging threads have registers for a slab, of units that are at the same place in each. It is worth it
  /// where slabs are used as fast as they come.
  bool can_be_held() const {
    return operands_ == Operands::kSplit && tile_.planes == 1 && tile_.run == 0 &&
           tile_.steps[0].count <= traits_.batch &&
           tile_.units * tile_.positions <= shape_.held_units * shape_.staging_threads();
  }

  void try_boxes(const TapRows& rows, const TapColumns& columns) {
    if (std::max({tile_.pitch, tile_.images, tile_.box_rows}) > kMaxBox) return;
    try_stored(stores_, rows, columns);
  }

  /// Outputs as they are, and as boxes if these can be.
  void try_stored(bool can_be, const TapRows& rows, const TapColumns& columns) {
    for (const bool stored : {false, true}) {
      if (stored && !(can_be && has_whole_filters(problem_, shape_))) break;
      tile_.stored = stored;
      tile_.activates = !is_short(problem_.activation);
      try_stages(rows, columns);
    }
    tile_.stored = 0;
  }

  /// Of the last column, shifted by the tap that shifts most.
  int overrun(const TapRows& rows, const TapColumns& columns) const {
    const int column =
        tile_.warpgroup_step + (tile_.product_columns / 8 - 1) * tile_.group_stride + 7;
    const int tap = (tile_.planes - 1) * tile_.plane_positions +
                    rows.extra() * tile_.images * tile_.pitch + columns.extra;
    return std::max(column + tap + 1 - tile_.positions, 0);
  }

  /// By blocks of their own, and by clusters, if all run at a time.
  void try_stages(const TapRows& rows, const TapColumns& columns) {
    try_cluster(rows, columns);
    tile_.shares_windows = may_share_windows();
    if (tile_.shares_windows) try_cluster(rows, columns);
    tile_.shares_windows = 0;
    if (shape_.takes_turns || shape_.sets() > 1 || tile_.stored) return;
    const double tiles = tile_count(problem_, tile_, shape_);
    while (++tile_.cluster_bits <= kMaxClusterBits && tiles <= chip_.clusters[tile_.cluster_bits] &&
           tile_.slabs() >= tile_.cluster_blocks() &&
           tile_.product_columns / 8 >= tile_.cluster_blocks())  // each has some to add up
      try_cluster(rows, columns);
    tile_.cluster_bits = 0;
  }

  /// Whether it may be worth it: where windows come as boxes that the L2 cache takes long for, and all blocks run in pairs.
  bool may_share_windows() const {
    return tile_.boxed() && !tile_.pixel_rows && problem_.k_per_group() > shape_.filters &&
           !has_whole_sectors(problem_.input, moved_bytes(operands_)) &&
           2 * chip_.clusters[1] == chip_.multiprocessors;
  }

  void try_cluster(const TapRows& rows, const TapColumns& columns) {
    tile_.whole_planes = chip_.bulk_copies && has_whole_planes(problem_, shape_, operands_, tile_);
    if (!fit_stages(problem_, shape_, operands_, chip_, tile_)) return;
    const double cost = cost_.cycles(tile_, shape_);
    if (best_.kernel >= 0 && !is_better(cost)) return;
    best_.kernel = kernel_;
    best_.tile = tile_;
    best_.tile.lead = lead(problem_, shape_, traits_, chip_, tile_);
    best_.tile.line_warp = has_line_warp(shape_, traits_, tile_);
    best_.cost = cost;
    best_columns_ = columns;
    best_rows_ = rows;
  }

  /// Than the best: boxes bring in no time what copies take long for.
  bool is_better(double cost) const {
    return tile_.boxed() == best_.tile.boxed() ? cost < best_.cost : tile_.boxed();
  }

  /// Whether tiles' numbers and the offsets in them fit 32 bits.
  bool is_near() const {
    return tile_count(problem_, tile_, shape_) < double(kMaxTiles) &&
           has_near_outputs(problem_.output) &&
           (!problem_.has_residual || has_near_outputs(problem_.residual));
  }

  /// Whether the offsets of a tile's outputs from its first fit 32 bits.
  bool has_near_outputs(const Tensor& tensor) const {
    const double reach = double(std::abs(tensor.stride[0])) * tile_.images +
                         double(std::abs(tensor.stride[2])) * tile_.rows +
                         double(std::abs(tensor.stride[3])) * tile_.columns;
    return reach < double(kMaxSpan);
  }

  const Problem& problem_;
  Operands operands_;
  OperandTraits traits_;
  Chip chip_;
  TileChoice& best_;
  int unit_channels_, unit_columns_;
  bool has_units_;  // whether units are in the input, neighbouring channels
  int copied_bytes_;
  CostModel cost_;
  bool boxes_, stores_;
  int kernel_ = -1;
  KernelShape shape_ = {};
  Tile tile_ = {};
  TapColumns best_columns_;
  TapRows best_rows_;
};

}  // namespace

bool choose_tile(const Problem& problem, Operands operands, const KernelShape* shapes, int count,
                 const Chip& chip, TileChoice& choice, bool pixel_rows) {
  choice.kernel = -1;
  Search search(problem, operands, chip, choice);
  for (int i = 0; i < count; ++i)
    if (shapes[i].pixel_rows == pixel_rows) search.try_kernel(i, shapes[i]);
  return search.finish();
}

}  // namespace im2win::cuda::fused
