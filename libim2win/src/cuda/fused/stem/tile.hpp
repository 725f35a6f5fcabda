// How im2win_stem cuts a problem of few channels. Host-only arithmetic and plain data.
//
// A block computes 64 filters, or a few times as many where it has room for them, or 96, of a *strip*: of
// an image's outputs, or some columns of them, row after row. Warpgroups take turns with the *chunks* of
// rows, as many pixels as a product has. In shared memory there is a ring of *bands*: rows of the input
// under a strip, as many as the filter steps down from an output row to the next, each staged once for all
// the output rows whose windows meet it.
//
// A unit (see fused/tile.hpp) here is four neighbouring columns of one channel, of two rows where
// elements have 16 bits: with few channels, little of it is in vain. A band has a unit of each channel
// and pair of rows at each position, [part][unit][position]. The columns past a unit's four are those
// of positions further on: tap columns are shifts, tap rows bands.
//
// Windows of 3 x 3 meet less than half of what such units are multiplied by. For them a band may be *dense*: an
// output row's own, with all of each window's elements, one after another in the order of the filter. In NCHW a strip
// of them is an image, and what elsewhere are its rows are *runs*: as many neighbours of all its pixels. In NHWC a band
// has as many rows of outputs as a product has columns for, if these leave as boxes.
#pragma once

#include <cstdint>

#include "cuda/fused/shared.hpp"
#include "cuda/fused/tile.hpp"
#include "problem.hpp"

namespace im2win::cuda::fused::stem {

constexpr int kMaxChannels = 4;  // of a group
constexpr int kUnitColumns = 4;
constexpr int kMaxBandBatches = 3;
constexpr int kMaxBandSteps = 18;
constexpr int kMaxBands = 16;  // of the ring
constexpr int kMaxChunks = 8;

/// That multiply, and beside them those that stage.
constexpr int kMostWarpgroups = 3, kMostStagingWarpgroups = 2;

/// Pixels of a sector of memory: a run of two chunks has so many beyond those that there are to the next.
constexpr int run_overlap(int element_bytes) { return 32 / element_bytes; }
constexpr int kRunChunks = 2;
constexpr int run_columns(const KernelShape& shape) { return kRunChunks * shape.columns; }
constexpr int run_pixels(const KernelShape& shape, int element_bytes) {
  return run_columns(shape) - run_overlap(element_bytes);
}
/// Runs on their way out, [filter][pixel]: eight filters, of which lanes put two pixels each, meet all banks.
constexpr int run_pitch(const KernelShape& shape) { return run_columns(shape) + 8; }

/// What becomes of a filter's pixel-major sums.
template <bool kScaled>
struct FilterEnd {
  float scale;  // that of its elements taken out; see filter_scales
  float bias;
};
template <>
struct FilterEnd<false> {
  static constexpr float scale = 1;
  float bias;
};

/// Dense bands' windows have as many rows and columns, and channels at most. Of their positions a thread stages so
/// many at most.
constexpr int kDenseTaps = 3, kDenseChannels = 3, kDensePositions = 2;
/// Two windows that a thread stages together are so many columns apart at most.
constexpr int kMostPairStep = 2;
/// 27 elements are four units of 16-bit operands; fewer are multiplied as many.
constexpr int kDenseSteps = 2;

/// Of rows that come to shared memory as they lie (see RawBands): bands whose rows are there, or on their way, and
/// positions of a pair of rows, or windows, that a thread stages at most. Pixels have so many channels, of 16 bits.
constexpr int kRawStages = 4, kRawItems = 2;
constexpr int kRawChannels = 3, kRawPixelBytes = kRawChannels * 2;

/// Whether a kernel can stage such rows.
constexpr bool may_stage_raw(const KernelShape& shape, Operands operands) {
  return moved_bytes(operands) == 2 && shape.staging_warpgroups == 1;
}

/// Whether its bands are dense, of such rows: of one that can stage these they have no others.
constexpr bool is_dense_raw(const KernelShape& shape, Operands operands) {
  return shape.dense && may_stage_raw(shape, operands);
}

/// Whether each lane arrives for itself when a band is full. The rows under it are replaced then, which each lane has
/// read; that one arrives for all, once they have met, orders these reads, too, but racecheck does not see it.
constexpr bool lanes_arrive(const KernelShape& shape, Operands operands) {
  return is_dense_raw(shape, operands);
}

/// Of filters that blocks gather: units of one, at most, and how many filters the lanes of a warp have at a time, of each
/// so many units.
constexpr int kMostGatheredUnits = 48;
constexpr int lane_filters(const KernelShape& shape) { return shape.dense ? 8 : 4; }
constexpr int lane_units(const KernelShape& shape) { return 32 / lane_filters(shape); }

constexpr int unit_rows(Operands operands) { return traits(operands).unit_elements / kUnitColumns; }

/// Of a band's batch; of TF32, of which nothing has to be summed anew, what 11 tap columns take.
constexpr int max_batch_steps(Operands operands) {
  return operands == Operands::kTf32 ? kMaxBandSteps / kMaxBandBatches : kMaxBatch;
}

/// Of a band's unit, neighbouring positions that a thread stages: at steps of fewer columns than a unit has,
/// they share elements, which where they are split then are read and split once for all.
constexpr int run_positions(Operands operands, int step) {
  return operands == Operands::kSplit && step < kUnitColumns ? 4 : 1;
}
constexpr int run_columns(Operands operands, int step) {
  return (run_positions(operands, step) - 1) * step + kUnitColumns;
}

/// Runs of a band that a thread stages at most: it holds their elements while a scale is found for them.
constexpr int thread_runs(Operands operands, int step) {
  constexpr int kSplitElements = 32;
  if (operands == Operands::kSplit)
    return kSplitElements / (unit_rows(operands) * run_columns(operands, step));
  return operands == Operands::kTf32 ? 9 : 6;
}

struct Bands {
  // Of the input. As many as the filter steps down lie between an output row's first band and the next's.
  int32_t rows;
  // Of bands:
  int32_t count;   // that an output row's windows meet
  int32_t apart;   // from one of those to the next
  int32_t stages;  // in the ring
  // Of a row of a strip: as many columns as a warpgroup multiplies at a time, in turns with the others.
  int32_t chunks;
  // Of outputs, narrow ones, that are a row of the strip: a dense band has the windows of all, one after another.
  int32_t output_rows;

  // Of a band's rows, if they come as they lie, or 0.
  int32_t raw_bytes;

  int32_t units;      // of a position
  int32_t positions;  // of a unit
  int32_t bytes, part_bytes;
  // A band's steps: 1 batch or kMaxBandBatches, of 2 steps or more. Those past the filter's taps are
  // multiplied by zeros.
  int32_t batches, batch_steps;
  Step steps[kMaxBandSteps];

  /// Those that some neighbouring rows of a strip meet.
  constexpr int32_t of_rows(int32_t strip_rows) const { return strip_rows + more_rows(); }
  /// Rows above and below a strip whose windows would meet bands of its first and last row, too.
  constexpr int32_t more_rows() const { return (count - 1) * apart; }
};

/// Of a band whose rows come as they lie, what threads stage: see kRawItems.
constexpr int raw_items(const Bands& bands, bool dense) {
  return dense ? bands.positions : bands.units / kRawChannels * bands.positions;
}

/// Runs of one of its units.
constexpr int line_runs(const Bands& bands, Operands operands, int step) {
  return bands.positions / run_positions(operands, step);
}

struct StemChoice {
  TileChoice tile;  // as far as packed filters and writing go
  Bands bands;
  int32_t sets;  // of a tile's filters that a block has
  bool gathers;  // which it makes operands itself
};

/// The tile of the cheaper of the shapes that can take the problem. False if none can.
bool choose_stem(const Problem& problem, Operands operands, const KernelShape* shapes, int count,
                 const Chip& chip, StemChoice& choice);

/// Whether a thread makes outputs of its sums where they are, so that they leave as boxes, runs, or rows of pixels or words of
/// filters; pixel-major ones, only of sums and a bias, perhaps clamped from below.
bool finishes_in_registers(const Problem& problem);

bool has_dense_windows(const Problem& problem);

/// Whether im2win_stem, where it is chosen, has runs of all outputs of an image.
bool has_runs(const Problem& problem);

/// What im2win_stem makes of it: runs in TF32 are computed as in float32. Of 27 elements TF32 makes as many products as
/// these need, and bands of twice the bytes; the kernel would be another one, and no faster.
Problem as_computed(const Problem& problem);

/// Of dense bands: whether all rows of the input begin at words of two elements, if it does, and are whole ones of them, and
/// windows of neighbouring positions, the first of which is even, are in a row.
bool has_pairs(const Problem& problem, const KernelShape& shape);

/// What a kernel of such a shape computes: the problem, or as many rows as an image has bands of several rows, or, where it
/// has runs, as many as these, of as many pixels as there are from one to the next.
Problem rows_of(const Problem& problem, const KernelShape& shape);

/// How many rows of outputs a band of such a shape has the windows of.
int output_rows(const Problem& problem, const KernelShape& shape);

/// Whether im2win_stem was measured to be faster than im2win_fused on such problems, of those that it takes: how
/// many of its rows' 56 outputs may be in vain depends on what im2win_fused makes of them.
bool is_faster(const Problem& problem);

/// Of a block: filters, bands, rows as they lie, boxes of outputs, patches, the table of columns.
SharedLayout stem_layout(const StemChoice& choice, const KernelShape& shape, Operands operands);

}  // namespace im2win::cuda::fused::stem
