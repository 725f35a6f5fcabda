// What a block of im2win_fused keeps in shared memory, and where.
#pragma once

#include <algorithm>
#include <cstdint>

#include "checked.hpp"
#include "cuda/fused/tile.hpp"

namespace im2win::cuda::fused {

/// Where a warp gathers finished sums on their way out: 16 filters by 32 columns, or 8 by 32 or 64; or the planes of
/// eight filters. Lanes write two columns of eight filters, or one, at a time: pitches of 8 and 20 modulo 32 send them
/// to different banks.
constexpr int kPatchFilters = 16;
constexpr int kPatchColumns = 32;
constexpr int kPatchPitch = kPatchColumns + 8;            // [filter][column], for NCHW
constexpr int kTransposedPatchPitch = kPatchFilters + 4;  // [column][filter], for NHWC
static_assert(kPatchFilters * kPatchPitch == kPatchColumns * kTransposedPatchPitch);

struct Patch {
  float sums[kPatchFilters * kPatchPitch];
  float bias[kPatchFilters];
  float doubt[kPatchFilters];
};
static_assert(sizeof(Patch) % 16 == 0);

/// Of pixel-major sums, a warpgroup's, of some filters at a time, [filter][pixel]; each of its warps has a part for
/// activations. Lanes put eight pixels of four filters, every other one, at a time: twice the pitch is 8 modulo 32, and
/// they meet all banks.
constexpr int kPixelPatchFilters = 32, kPixelPatchPitch = 64 + 4;
constexpr int kPixelPatchBytes = kPixelPatchFilters * kPixelPatchPitch * 4;

constexpr int32_t patch_bytes(const KernelShape& shape) {
  return shape.multiplying_threads() / 32 * static_cast<int32_t>(sizeof(Patch));
}

/// Planes of 16-bit outputs.
constexpr int32_t kPlaneFilters = 8;
constexpr int32_t patch_pitch(const Tile& tile, const KernelShape& shape) {
  constexpr auto kLeast = static_cast<int32_t>(sizeof(Patch));
  return tile.whole_planes ? std::max(kLeast, kPlaneFilters * shape.columns * 2) : kLeast;
}
/// Where a column is in them, in bytes, those of its first filter; or this, if it is no output.
constexpr uint16_t kNoPlace = UINT16_MAX;

/// Where a multiplying thread keeps some of its sums while they pass through an activation: in its warp's patch,
/// where that is free.
constexpr int kThreadSlots = 4, kSlotBytes = kThreadSlots * 16;
static_assert(32 * kSlotBytes <= kPixelPatchBytes / 4);

/// A position of a tile's slabs in the input. `row` counts the input's rows from the first of a slab;
/// kNowhere: outside, whatever the slab. `offset` is from the pixel at that row and the tile's first
/// column in its first image, in elements; or where that is in raw lines, in bytes. `elements` has a bit
/// for each of a unit's elements, set where that is in the input, or a zero of raw lines.
struct Place {
  int32_t offset;
  uint32_t elements;
  int32_t row;
};
constexpr int32_t kNowhere = INT32_MIN;

/// Where units come from boxes whole or not at all, there is no Place for each position, but its offset in a stage of
/// lines, counted in float32 elements, and before them that of each of a slab's units; or one of these, for the gaps
/// between units and for what is outside the input and the lines have no zeros for.
constexpr int16_t kGap = -1, kOutside = -2;

constexpr bool has_unit_offsets(const Tile& tile, Operands operands) {
  return tile.raw.boxed && (tile.raw.has_zeros_around || tile.unit_columns == 1) &&
         !are_elements(operands) && !tile.held && !tile.from_lines;
}

/// What a tile's places depend on, as far as edges of the input are concerned.
struct Edges {
  int32_t images;  // of the tile that exist
  int32_t left;    // minus how many columns are outside to the left
  int32_t right;   // columns from the first to the right edge, or all that are needed
  // Where lines of boxes go on from row to row and the input is padded.
  int32_t top = 0, bottom = 0;  // likewise, of rows
  // Where lines are transposed: minus how many pixels they begin late, and where in a row a run begins that the table
  // is of.
  int32_t start = 0, begin = 0;

  bool operator==(const Edges&) const = default;
};

/// Where lines are transposed, there is no Place for each position, but for each pixel of a channel's
/// lines, after those of a word that is not there, the position, counted from those of a run's first row;
/// or this, if it has none.
constexpr uint16_t kNoPosition = UINT16_MAX;

/// Whether this table is the same for all runs: from a row's first column on, where lines are of rows, ...
constexpr bool has_table_of_rows(const Tile& tile) {
  return tile.raw.apart != 0 && tile.planes == 1;
}
/// ... or from where a run begins, as its positions follow each other as the pixels of an image of such a width do. If
/// not, it is made anew for each.
constexpr bool has_table_of_runs(const Tile& tile, int64_t w, int64_t stride_h) {
  return tile.raw.apart == 0 && tile.planes == 1 && tile.raw.has_zeros_around && tile.pitch == w &&
         stride_h == 1;
}

/// Of each of the positions that a pixel may have, in elements.
constexpr int32_t pixel_table_pitch(const Tile& tile) {
  return kUnitBytes / 2 + tile.images * tile.raw.rows * tile.raw.pitch;
}

/// Tables of columns are good for all tiles, those of positions for all that have the same edges. Runs begin
/// anywhere in a row: their tables go from its first column to where the last run ends that begins in it.
constexpr int32_t table_begins(const Tile& tile) { return tile.run > 0 ? tile.pitch - 1 : 0; }

/// The elements of a raw line, counted from the first of its stage.
struct LineExtent {
  int32_t begin, end;
};

/// Where columns of a tile are in it, and in the output and the residual: in elements from the tile's
/// first pixel. Some are no outputs: beyond the tile, or its images' edges.
struct alignas(16) ColumnPlace {
  int32_t output, residual;
  int32_t column;
  uint16_t row, image;
};

/// The columns of a warpgroup in whole patches.
constexpr int patch_columns(int columns) {
  return (columns + kPatchColumns - 1) / kPatchColumns * kPatchColumns;
}
constexpr int32_t table_columns(const Tile& tile, KernelShape shape) {
  if (tile.pixel_rows || tile.from_lines) return 0;  // from a row to the next they would be many
  const int others = shape.divides_columns() ? shape.multiplying_warpgroups - 1 : 0;
  return table_begins(tile) + others * tile.warpgroup_columns + patch_columns(shape.columns);
}

/// Outputs on their way out as boxes, of rows that are swizzled like those of slabs. Each box has some
/// filters of all pixels of a tile, and a row for columns that are no outputs; or rows of 64 of its pixels.
/// Those of 64 filters leave together: a warpgroup's, or two's that have different pixels.
constexpr int kBoxedFilters = 64;

/// How many times a block has boxes of 64 filters, if tiles may leave as boxes.
constexpr int output_sets(const KernelShape& shape) {
  return shape.takes_turns ? shape.multiplying_warpgroups
                           : std::min(shape.filters, 128) / kBoxedFilters;
}

constexpr int moved_bytes(Operands operands) {
  return operands == Operands::kTf32 || operands == Operands::kSplit ? 4 : 2;
}

/// Those that leave together.
constexpr int boxes_of_set(const KernelShape& shape, Operands operands) {
  return shape.pixel_rows ? shape.columns / kRowPixels
                          : kBoxedFilters * moved_bytes(operands) / kRowBytes;
}

/// What boxes' rows without a swizzle begin at multiples of.
constexpr int kRawAlignment = 128;

/// A warpgroup's columns are shared out by eights among a cluster's blocks: the first of a block's.
constexpr int32_t first_eight(const Tile& tile, int32_t block) {
  return block * (tile.product_columns / 8) >> tile.cluster_bits;
}
/// And the most that any has.
constexpr int32_t most_eights(const Tile& tile) {
  return (tile.product_columns / 8 + tile.cluster_blocks() - 1) >> tile.cluster_bits;
}
/// Eight columns' sums, four a thread of a warpgroup; and what goes with them: see Sums::doubt.
constexpr int32_t kEightBytes = 128 * kUnitBytes;
constexpr int32_t kBoundBytes = kBoxedFilters * static_cast<int32_t>(sizeof(float));
/// What a warpgroup has of sums, and what it gets of them, a *letter*, from a warpgroup of another block: of as
/// many columns as a block has at most.
constexpr int32_t outgoing_bytes(KernelShape shape) {
  return shape.columns / 8 * kEightBytes + kBoundBytes;
}
constexpr int32_t letter_bytes(const Tile& tile) {
  return most_eights(tile) * kEightBytes + kBoundBytes;
}
/// Of a block: its warpgroups', then those from [block][warpgroup].
constexpr int32_t cluster_sum_bytes(const Tile& tile, KernelShape shape) {
  return shape.multiplying_warpgroups *
         (outgoing_bytes(shape) + tile.cluster_blocks() * letter_bytes(tile));
}

/// For the rings' barriers and what goes with them; and what boxes' beginnings are multiples of, as
/// swizzles repeat.
constexpr int kBarrierBytes = 1024;

/// Bytes from the start of dynamic shared memory: barriers, filters, slabs, patches or boxes of outputs,
/// places, raw lines.
/// The columns of a product that are no outputs read past a slab's end, and positions that pad a unit:
/// there are zeros, lest they make NaN of what happens to be there, which is looked into.
struct SharedLayout {
  int32_t filter_stage, slab;              // of one; a slab with the zeros after it
  int32_t part;                            // from an element's high to its low operands, of a slab
  int32_t filters, slabs, patches, patch;  // from a warp's patch to the next
  int32_t boxes, box;        // of outputs, in the room of patches; from a box to the next
  int32_t slots;             // for activations, where patches have no room
  int32_t row_ends, biases;  // of im2win_stem
  int32_t columns, plane_places, places;  // tables
  int32_t raw, raw_stage;
  int32_t extents;  // of lines of split operands, [stage][line]
  int32_t total;
};

inline SharedLayout shared_layout(const Tile& tile, const KernelShape& shape, Operands operands) {
  const OperandTraits t = traits(operands);
  const auto aligned = [](int32_t bytes) {
    return (bytes + kBarrierBytes - 1) / kBarrierBytes * kBarrierBytes;
  };
  SharedLayout layout{};
  layout.filter_stage = t.batch * t.parts * 2 * shape.filters * kUnitBytes;
  layout.part = tile.units * tile.positions_pitch * kUnitBytes;
  layout.slab = t.parts * layout.part + tile.overrun * tile.row_units * kUnitBytes;
  if (tile.boxed()) layout.slab = aligned(layout.slab);
  const auto line_bytes = static_cast<int32_t>(
      round_up(tile.raw_lines() * tile.raw.pitch * moved_bytes(operands), kRawAlignment));
  if (tile.from_lines) layout.slab = line_bytes;
  layout.filters = kBarrierBytes;
  layout.slabs = layout.filters + tile.filter_stages * layout.filter_stage;
  layout.patches = layout.slabs + tile.slab_stages * layout.slab;
  layout.boxes = aligned(layout.patches);
  layout.box =
      tile.pixel_rows ? kBoxedFilters * kRowBytes : aligned((tile.output_rows() + 1) * kRowBytes);
  const int32_t boxes = tile.stored ? output_sets(shape) * boxes_of_set(shape, operands) : 0;
  layout.patch = tile.from_lines ? kPixelPatchBytes / 4 : patch_pitch(tile, shape);
  layout.slots = std::max(layout.patches + shape.multiplying_threads() / 32 * layout.patch,
                          layout.boxes + boxes * layout.box);
  layout.columns =
      layout.slots + (tile.stored && tile.activates ? kSlotBytes * shape.multiplying_threads() : 0);
  layout.plane_places =
      layout.columns + table_columns(tile, shape) * static_cast<int32_t>(sizeof(ColumnPlace));
  layout.places = layout.plane_places + (tile.whole_planes ? 2 * shape.columns : 0);
  const int64_t places = tile.pixel_rows || tile.from_lines
                             ? 0
                             : tile.positions + int64_t{tile.planes} * table_begins(tile);
  const int64_t place_bytes = places * static_cast<int64_t>(sizeof(Place));
  const int64_t pixels = int64_t{tile.raw.pixel_positions} * pixel_table_pitch(tile);
  const int64_t table_bytes =
      has_unit_offsets(tile, operands)
          ? (int64_t{tile.units} * tile.positions_pitch + places) *
                static_cast<int64_t>(sizeof(int16_t))
          : std::max(place_bytes, pixels * static_cast<int64_t>(sizeof(uint16_t)));
  layout.raw = static_cast<int32_t>(round_up(layout.places + table_bytes, kRawAlignment));
  layout.raw_stage = line_bytes;
  layout.extents = layout.raw + tile.raw.stages * layout.raw_stage;
  const bool has_extents = operands == Operands::kSplit && !tile.raw.boxed;
  const int64_t extents = has_extents ? tile.raw.stages * tile.raw_lines() : 0;
  const int64_t end = layout.extents + extents * static_cast<int64_t>(sizeof(LineExtent));
  // Without boxes there are places in the room of their lines: see Arguments::refuse_words.
  layout.total = static_cast<int32_t>(std::max(end, layout.raw + place_bytes));
  if (tile.from_lines) layout.raw = layout.slabs;
  return layout;
}

}  // namespace im2win::cuda::fused
