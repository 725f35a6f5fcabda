// How im2win_fused cuts a problem into tiles. Host-only arithmetic and plain data.
//
// A block computes a tile of outputs: some filters of one group by columns x rows x images of
// pixels, a *box*; or by a *run* of pixels that goes on from row to row of an image, with the halo
// between rows computed in vain. In shared memory it keeps the windows of those pixels, not one by one
// but overlapping, as in the im2win tensor: the inputs under them are staged once, and filter taps are
// shifts.
//
// A *unit* is 16 bytes of operands along the products' K direction: 8 16-bit or 4 32-bit ones, of
// as many channels (or, where there are few channels, of fewer channels and several tap columns).
// A *position* is a place of a staged input. Positions form *planes*, in the order row, image,
// column: neighbours in a plane are as far apart in the input as neighbouring outputs. A plane holds
// rows and columns that are congruent modulo the stride, so each tap of a stride-2 filter is a shift
// of one plane. Units of all positions together are a *slab*, one stage of the pipeline: some tap
// rows (perhaps of one column) by some channels. The order in shared memory is [part][unit][position],
// 16 bytes each, which are wgmma's core matrices (8 positions by 16 bytes) without swizzle, K-major.
// Or, where pixels are rows of neighbouring channels and planes are boxes of the input, which come by
// themselves (boxes.cuh), it is [position][unit], in rows of 32, 64 or 128 bytes, swizzled.
// Or slabs are the lines of an input as they come (raw.cuh), [channel][pixel], where products take windows from registers.
// Or, where windows are single pixels, and the input's columns neighbours in memory, rows are of pixels,
// as they come: [64 pixels][channel], 128 bytes each, swizzled, wgmma's core matrices MN-major.
//
// A *step* is the K of one product instruction: two units of any taps.
#pragma once

#include <cstdint>
#include <string>

#include "problem.hpp"

namespace im2win::cuda::fused {

/// What products are formed of.
enum class Operands {
  kHalf,      // float16
  kBFloat16,  // bfloat16
  kTf32,      // float32 rounded to TF32
  kSplit,     // float32 as two float16: high + low / 2^11, scaled by a power of two
};

/// What multiplies.
enum class Instructions {
  kWgmma,  // of compute capability 9.0, a warpgroup at a time, while it goes on
  kMma,    // mma.sync, of 8.0 and later, a warp at a time
};

/// Of a problem in float16, bfloat16, or in float32 but for the math mode ieee.
constexpr Operands operands_of(const Problem& problem) {
  switch (problem.dtype) {
    case IM2WIN_FLOAT16: return Operands::kHalf;
    case IM2WIN_BFLOAT16: return Operands::kBFloat16;
    default: return problem.math == IM2WIN_MATH_TF32 ? Operands::kTf32 : Operands::kSplit;
  }
}

/// Whether operands are elements as they are, neither rounded nor split on their way.
constexpr bool are_elements(Operands operands) {
  return operands == Operands::kHalf || operands == Operands::kBFloat16;
}

struct OperandTraits {
  int unit_elements;  // operands in 16 bytes
  int parts;          // operands an element is split in
  int batch;          // steps between two hand-overs of the accumulators
};

constexpr OperandTraits traits(Operands operands) {
  switch (operands) {
    case Operands::kTf32: return {4, 1, 4};
    // The tensor cores truncate as they accumulate: after 64 products (4 steps) a sum goes to
    // float32 registers, which keeps its error below that of a float32 dot product.
    case Operands::kSplit: return {8, 2, 4};
    default: return {8, 1, 4};
  }
}

/// Of an image, or a tile's images, in elements of the input: their offsets fit 32 bits.
constexpr int64_t kMaxSpan = int64_t{1} << 30;

/// Tiles are counted in 32 bits, in steps of a grid.
constexpr int64_t kMaxTiles = int64_t{1} << 30;

constexpr int kUnitBytes = 16;
/// What swizzled rows have at most.
constexpr int kRowBytes = 128;
constexpr int kRowUnits = kRowBytes / kUnitBytes;
/// Pixels of a row, where rows are of pixels: 16-bit ones.
constexpr int kRowPixels = kRowBytes / 2;
constexpr int kWordPixels = kUnitBytes / 2;

/// The steps that a stage of filters holds, of so many that remain of a slab: the last two stages share
/// what they have.
constexpr int batch_of(OperandTraits traits, int steps) {
  const int half = static_cast<int>((static_cast<unsigned>(steps) + 1) / 2);
  return steps <= traits.batch ? steps : half < traits.batch ? half : traits.batch;
}

/// How many of them, from the first on, are of as many steps as there are at most.
constexpr int whole_batches(OperandTraits traits, int steps) {
  return steps % traits.batch == 0 ? steps / traits.batch
                                   : (steps - traits.batch + 1) / traits.batch;
}

constexpr int kMaxSteps = 128;
constexpr int kMaxBatch = 4;
constexpr int kMaxPlanes = 32;
constexpr int kMaxSlabStages = 6;
constexpr int kMaxFilterStages = 16;
constexpr int kMaxRawStages = 2;
/// Clusters of 8 blocks are portable (CUDA C++ Programming Guide, "Thread Block Clusters").
constexpr int kMaxClusterBits = 3;

/// Positions of a plane along each of its dimensions (CUDA driver API, cuTensorMapEncodeTiled).
constexpr int kMaxBox = 256;
/// Inputs that are congruent modulo the strides: each is a tensor of its own to boxes.
constexpr int kMaxPhases = 4;
/// Swizzles repeat after as many positions, where planes begin.
constexpr int kSwizzlePositions = 8;

/// The threads of a block: warpgroups that bring operands, whose last warp loads filters, and that or the one before
/// it raw lines (see Tile::line_warp), the others windows; and two warpgroups that multiply.
constexpr int kFilterThreads = 32;
constexpr int kLineThreads = 32;
constexpr int kMultiplyingThreads = 256;
constexpr int kMaxStagingThreads = 224;

/// What a compiled kernel computes at a time, and with how many threads.
struct KernelShape {
  // Of a tile: 128, 64 a multiplying warpgroup; 256, twice 64; or 64, whose columns or tiles these share out.
  int filters;
  int columns;  // output positions of a warpgroup, for which it has sums
  // And the fewest that it multiplies, of which it multiplies any multiple of 8: see Tile::product_columns.
  int least_columns = columns;
  int staging_warpgroups = 2;  // or 1, which leaves more registers to those that multiply
  int multiplying_warpgroups = 2;
  // Whether each multiplying warpgroup has tiles of its own, in turns: while one multiplies, the other writes.
  // All filters must be in shared memory, or they would come for each tile of half the size.
  bool takes_turns = false;
  bool pixel_rows = false;  // whether slabs are rows of pixels, not of channels
  // Whether sums are 64 rows of pixels by columns of filters, and not the other way round: those of im2win_stem, and where
  // windows come from lines to registers (see LineMultiplier).
  bool pixel_major = false;
  bool dense = false;  // whether positions have whole windows of their own (im2win_stem)
  bool runs = false;   // and go on from row to row of an image
  // Of a slab of split operands, that a thread which stages has registers for: see HeldStaging.
  int held_units = 0;

  /// Whether warpgroups share a tile's columns out, or all have all.
  constexpr bool divides_columns() const { return pixel_major || (filters < 128 && !takes_turns); }
  constexpr int block_columns() const { return divides_columns() ? 2 * columns : columns; }

  /// How many times 64 filters a warpgroup has of a tile, one after another: windows that took long to stage are
  /// used by twice as many. Or 64 pixels.
  constexpr int sets() const {
    return pixel_major ? columns / 64 : filters > 128 ? filters / 128 : 1;
  }

  /// Of a thread, of 64 filters.
  constexpr int sums() const { return (pixel_major ? filters : columns) / 2; }
  /// Of a thread that multiplies, at most.
  constexpr int registers() const { return staging_warpgroups == 1 ? 216 : 200; }
  /// Whether these suffice for sums of the low products of split operands beside those of the high ones, and are not
  /// left to those who stage.
  constexpr bool has_low_sums() const { return held_units == 0 && 3 * sums() + 36 <= registers(); }

  /// Those that bring windows, at most.
  constexpr int staging_threads() const { return 128 * staging_warpgroups - kFilterThreads; }
  constexpr int first_multiplier() const { return 128 * staging_warpgroups; }
  constexpr int multiplying_threads() const { return 128 * multiplying_warpgroups; }
  constexpr int threads() const { return first_multiplier() + multiplying_threads(); }
};

/// Two units of a slab, in 16 bytes: the first's offset, and how far on the second is, or, where rows are of
/// pixels, the next 64 pixels. In this form they are added to the low half of a wgmma descriptor.
struct Step {
  uint16_t offset;
  uint16_t second;
};

/// The steps of a slab with some tap rows; and what a batch may read past them.
struct Steps {
  int32_t count;
  Step step[kMaxSteps + kMaxBatch];
};

/// The elements of a filter that a unit multiplies; row -1: none, zeros.
struct FilterUnit {
  int16_t row;     // tap row, counted among those of the slab
  int16_t column;  // first tap column
  int16_t unit;    // channel unit of the slab
};

/// How inputs come to a slab: as lines of neighbours in memory, in a stage of their own (see raw.cuh);
/// or, with no stages, one by one from where they are.
struct RawLines {
  int32_t stages;
  int32_t boxed;  // whether they come as boxes, with zeros outside the input
  // Whether a box's rows are not of pixels of a channel, but of all channels of a pixel, which are neighbours:
  // swizzled, as positions that are read together are so far apart. A line still is all pixels, of all channels.
  int32_t by_pixels;
  int32_t apart;  // whether each row of positions has lines of its own; if not, lines go on
  int32_t has_zeros_around;  // for all that units need and the input has not
  // Channels that are congruent modulo 2 to this power are a box: their lines begin equally far past
  // words.
  int32_t phase_bits;
  int32_t channels;  // lines of a slab: of its channels, or 1 where these are neighbours
  // And of each channel and image: 1, or one for each row of positions, or for each part of a long
  // one.
  int32_t rows;
  int32_t pitch;  // elements from a line to the next one, whole words of 16 bytes
  // Positions that a pixel of a box may have, if its lines are transposed word by word (see
  // transpose.cuh); or 0.
  int32_t pixel_positions;
  int32_t position_row;  // elements from a row of positions to the next

  constexpr bool transposed() const { return pixel_positions > 0; }
  /// Of a box: of a phase, or neighbours of a pixel in a row of 128 bytes at most.
  constexpr int32_t box_channels() const {
    constexpr int32_t kMostOfPixel = kRowBytes / static_cast<int32_t>(sizeof(float));
    return by_pixels != 0 && channels > kMostOfPixel ? kMostOfPixel : channels >> phase_bits;
  }
  /// Boxes of a slab's channels.
  constexpr int32_t boxes() const { return channels / box_channels(); }
};

/// Where a unit of a swizzled row is, in units. Swizzles exchange the 16 bytes of a row according to address
/// bits 7 to 9, as far as rows have so many (PTX ISA, "Swizzling modes").
constexpr int32_t swizzled_place(int32_t row, int32_t unit, int32_t row_units) {
  return row * row_units + (unit ^ (row * row_units / 8 & (row_units - 1)));
}

struct Tile {
  int32_t images, rows, columns;  // of outputs; the most that a run meets
  int32_t run;                    // positions from a run's start to the next one's; 0: a box
  int32_t pitch;                  // positions of a row of an image
  int32_t planes, plane_positions;
  int32_t origin[kMaxPlanes];  // the input column of a plane's first position in the tile's
  int32_t positions;           // of all planes
  // Of a unit, above `positions`, odd: units differ in banks. Or as many, in boxes.
  int32_t positions_pitch;
  // wgmma's columns: column c is at position c / 8 * group_stride + c % 8, and belongs to row
  // c / column_pitch of the tile. Either rows follow each other with their halo, which yields
  // columns that are no outputs (8, pitch), or the tile is 8 wide (pitch, 8).
  int32_t group_stride, column_pitch;
  // A warpgroup's columns that are multiplied: no more than the tile needs, as far as a kernel goes.
  int32_t product_columns;
  int32_t warpgroup_step;     // positions from the first warpgroup's columns to the second's
  int32_t warpgroup_columns;  // of the tile: those that a warpgroup has beyond them are no outputs
  int32_t overrun;            // positions past a slab that columns which are no outputs reach

  int32_t unit_channels;  // of a unit
  int32_t channel_bits;   // which are 2 to this power apart, those of as many units in turn
  // And its tap columns; in im2win_stem it may have several rows of them. 0: a unit is of any elements of a
  // window, which follow one another in the order of the filter.
  int32_t unit_columns;
  int32_t units;             // channel units of a slab
  int32_t chunks;            // slabs of all channels
  int32_t row_units;         // units of a position that are neighbours: 1, or all of a slab
  int32_t pixel_rows;        // whether rows are of pixels: see KernelShape
  int32_t pixel_word;        // of these, moved at a time, where they do not come as boxes; or 0
  int32_t box_rows;          // of a plane, where it is a box
  int32_t stored;            // whether outputs leave as boxes, too
  int32_t whole_planes;      // or as planes: see has_whole_planes
  int32_t activates;         // whether an activation, a long one, takes sums through slots
  int32_t filters_in_place;  // whether filters come as boxes of what they are: see has_filter_boxes

  // Taps by slabs: group j has tap rows j / column_groups + m * row_step, and all tap columns or, where
  // these are groups, too, column j % column_groups.
  int32_t tap_groups, column_groups, group_rows, row_step;
  int32_t full_groups;  // those first have group_rows rows, those after them one less
  Steps steps[2];       // of a full group, of the others

  RawLines raw;
  // Whether products have windows from lines, which are slabs then, and no units: see LineMultiplier. Steps are counted
  // in elements.
  int32_t from_lines;
  int32_t line_warp;  // whether raw lines have a warp of their own
  int32_t held;       // whether those who stage hold a slab's units in registers: see HeldStaging
  int32_t slab_stages, filter_stages;
  int32_t lead;      // batches that the first warpgroup is ahead of the second
  int32_t resident;  // whether all filters stay in shared memory
  // 2 to this power blocks, a cluster, share a tile's slabs out among them (see cluster_sums.cuh).
  int32_t cluster_bits;
  // Or whether 2 blocks, a cluster, have tiles of the same windows, which each brings to both in turns (see slab_turns.cuh).
  int32_t shares_windows;

  constexpr int32_t slabs() const { return tap_groups * chunks; }
  constexpr int32_t cluster_blocks() const { return 1 << cluster_bits; }
  /// Blocks that are launched as a cluster, for one reason or the other.
  constexpr int32_t launched_together() const { return shares_windows ? 2 : cluster_blocks(); }
  /// Of a cluster's block, whose slabs end where the next one's begin.
  constexpr int32_t first_slab(int32_t block) const { return block * slabs() >> cluster_bits; }
  /// Of a slab: a unit's i'th.
  constexpr int32_t channel(int32_t unit, int32_t i) const {
    const int32_t among = unit & ((1 << channel_bits) - 1);
    return (unit - among) * unit_channels + among + (i << channel_bits);
  }
  /// Whether slabs are as boxes put them.
  constexpr bool boxed() const { return row_units > 1 || pixel_rows != 0; }
  /// Where a unit is in a slab, in units.
  constexpr int32_t place(int32_t position, int32_t unit) const {
    if (row_units == 1) return unit * positions_pitch + position;
    return swizzled_place(position, unit, row_units);
  }
  /// From 64 pixels of all channels of a slab to the next ones, where rows are of pixels, in units.
  constexpr int32_t pixel_block() const { return units * unit_channels * kRowUnits; }
  /// Pixels of a box.
  constexpr int32_t output_rows() const { return rows * images * columns; }
  /// Where the lines of a unit of some row of positions are in a slab, in elements, if that is lines.
  constexpr int32_t place_in_lines(int32_t plane, int32_t row, int32_t unit) const {
    return unit * (unit_channels >> raw.phase_bits) * raw.pitch + row * raw.position_row +
           origin[plane];
  }
  /// Of a slab.
  constexpr int64_t raw_lines() const { return int64_t{raw.channels} * images * raw.rows; }
  /// Steps of the slabs that come before a tap group's, and in it before a chunk.
  constexpr int64_t steps_before(int32_t tap_group, int32_t chunk) const {
    const int32_t full = tap_group < full_groups ? tap_group : full_groups;
    const int32_t here = tap_group < full_groups ? steps[0].count : steps[1].count;
    return int64_t{chunks} *
               (int64_t{full} * steps[0].count + int64_t{tap_group - full} * steps[1].count) +
           int64_t{chunk} * here;
  }
  /// Steps of all slabs.
  constexpr int64_t total_steps() const { return steps_before(tap_groups, 0); }
};

/// Which elements of the filter each step's two units multiply, of the two kinds of row groups.
struct FilterOrder {
  FilterUnit unit[2][kMaxSteps][2];
};

struct TileChoice {
  int kernel;  // index of the shape
  Tile tile;
  FilterOrder order;
  double cost;  // in cycles, an estimate
};

/// What the choice needs to know of a device.
struct Chip {
  int multiprocessors;
  int shared_bytes;  // of a block, at most
  bool bulk_copies;  // to shared memory, of lines and boxes
  // How many clusters of 2 to such a power blocks run at a time: fewer than multiprocessors suffice for, as
  // these are in groups. None without clusters.
  int clusters[kMaxClusterBits + 1] = {};
};

/// The cheapest tile of any of the `count` shapes that have rows of pixels, or have not, on such a device.
/// False if none can take the problem.
bool choose_tile(const Problem& problem, Operands operands, const KernelShape* shapes, int count,
                 const Chip& chip, TileChoice& choice, bool pixel_rows = false);

/// Whether groups of a problem are several of the filter's.
bool has_merged_groups(const Problem& problem);

/// Whether all channels of a slab are of the tile's group.
bool has_whole_slabs(const Problem& problem, const Tile& tile);

/// Whether neighbours along one dimension are neighbours in memory, and along the others whole words of
/// 16 bytes apart.
bool has_boxes(const Tensor& tensor, int fastest, int64_t element_bytes);

/// Whether rows of channels are whole sectors of memory apart, 32 bytes.
bool has_whole_sectors(const Tensor& tensor, int64_t element_bytes);

/// Whether the input can come as boxes: its pixels are rows of neighbouring channels, all words of 16
/// bytes, and each phase of the strides has some row and column.
bool has_input_boxes(const Problem& problem, Operands operands);

/// How many bytes of a pixel's neighbouring channels can be copied at a time, to units of the same elements: 16, 8 or 4;
/// or 0, if none. Whole units of TF32 come as boxes, or are loaded.
int copied_bytes(const Problem& problem, Operands operands);

/// How many pixels that windows have can be moved at a time, to rows of pixels: of one image, if they are all neighbours,
/// 8, as boxes are of whole words; else 4, 2 or 1; or 0, if there are no such rows. Windows are single pixels.
int row_pixels(const Problem& problem, Operands operands);
/// Whether, of such windows, some pixels are no window's.
constexpr bool has_pixels_apart(const Problem& problem) {
  return problem.stride_h > 1 || problem.stride_w > 1;
}

/// Whether a kernel has those who stage rows of pixels that are no boxes, which takes more of them than to start boxes;
/// and whether these have the registers for pixels on their way.
constexpr bool may_have_pixel_words(const KernelShape& shape) {
  return shape.pixel_rows && shape.staging_warpgroups > 1;
}
constexpr bool may_have_loaded_pixels(const KernelShape& shape) {
  return may_have_pixel_words(shape) && shape.columns <= 128;
}
/// Whether its tiles are boxes of 64 pixels.
constexpr bool may_have_pixel_boxes(const KernelShape& shape) {
  return shape.pixel_rows && shape.columns % kRowPixels == 0;
}

/// Whether filters can come as boxes, as they are: rows of channels, for a tile with such rows of inputs, of so many units. A
/// batch then is the steps of one tap.
bool may_box_filters(const Problem& problem, Operands operands, int units);
bool has_filter_boxes(const Problem& problem, Operands operands, const Tile& tile);

/// Whether outputs can leave as boxes, whose rows are along a dimension, and what is added to them come so. A box
/// leaves in whole words of 16 bytes, past the last filter or pixel, too, if that does not end one.
bool has_output_boxes(const Problem& problem, Operands operands, int fastest);

/// Whether all filters of a tile are of its group, or none's.
bool has_whole_filters(const Problem& problem, const KernelShape& shape);

/// Whether the outputs of eight of a warp's filters are neighbours in memory, whole words of 16 bytes: NCHW with 16-bit
/// elements, and a tile of all pixels of its images, which a warpgroup has for itself.
bool has_whole_planes(const Problem& problem, const KernelShape& shape, Operands operands,
                      const Tile& tile);

/// How many neighbouring pixels of a filter are a word of the output, whichever tile and filter they are of.
int row_word(const Problem& problem, const Tile& tile);

/// Of the planes whose columns are congruent modulo the stride, how many come before this one.
constexpr int planes_alike(const Tile& tile, int plane, int stride_w) {
  int count = 0;
  for (int i = 0; i < plane; ++i) count += (tile.origin[plane] - tile.origin[i]) % stride_w == 0;
  return count;
}

/// Input columns that a position's plane and unit reach to the right of the first plane's element.
int32_t reach_right(const Problem& problem, const Tile& tile);

/// How many tiles an image's rows make, or its runs, and its columns.
int64_t row_tiles(const Problem& problem, const Tile& tile);
int64_t column_tiles(const Problem& problem, const Tile& tile);

/// Tiles of a group's filters: an even number, where blocks share windows, and the last one perhaps of none.
int64_t filter_tiles(const Problem& problem, const Tile& tile, const KernelShape& shape);

/// Tiles of a whole problem.
double tile_count(const Problem& problem, const Tile& tile, const KernelShape& shape);

/// Stages of filters that a tile takes.
int64_t batch_count(const Tile& tile, OperandTraits traits);

/// Such as "128 filters x 2 images x 7 x 7, ...": for people.
std::string describe(const Tile& tile);

}  // namespace im2win::cuda::fused
