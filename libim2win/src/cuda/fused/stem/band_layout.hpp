// How im2win_stem lays bands out: which units they have, and which of these each step multiplies.
#pragma once

#include <algorithm>
#include <cstdint>

#include "checked.hpp"
#include "cuda/fused/stem/tile.hpp"

namespace im2win::cuda::fused::stem {

/// Of bands that rows of outputs share: the units that a band's filters meet.
class SharedBandLayout {
 public:
  /// `columns` of a strip have positions.
  SharedBandLayout(const Problem& problem, Operands operands, int columns, int chunks)
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
  struct TapUnit {
    int offset;  // in a band, in units
    FilterUnit filter;
  };

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

/// Of dense bands: the units of whole windows.
class DenseLayout {
 public:
  /// `columns` of a strip have positions.
  DenseLayout(const Problem& problem, Operands operands, int columns, int chunks) {
    constexpr int kTaps = kDenseTaps * kDenseTaps;
    bands.rows = kDenseTaps;
    bands.count = bands.apart = bands.batches = 1;
    bands.chunks = chunks;
    bands.units = static_cast<int>(
        ceil_div(problem.c_per_group() * kTaps, int64_t{traits(operands).unit_elements}));
    bands.positions = columns;
    bands.part_bytes = bands.units * bands.positions * kUnitBytes;
    bands.bytes = traits(operands).parts * bands.part_bytes;
    bands.batch_steps = kDenseSteps;
  }

  int total_steps() const { return kDenseSteps; }
  bool fits() const { return true; }
  bool fits_staging(Operands) const { return bands.positions <= 128 * kDensePositions; }

  void pair(FilterOrder& order) {
    for (int i = 0; i < kDenseSteps; ++i) {
      const int first = std::min(2 * i, bands.units - 1);
      const int second = std::min(2 * i + 1, bands.units - 1);
      bands.steps[i] = {static_cast<uint16_t>(first * bands.positions),
                        static_cast<uint16_t>((second - first) * bands.positions)};
      order.unit[0][i][0] = unit(2 * i);
      order.unit[0][i][1] = unit(2 * i + 1);
    }
  }

  Bands bands{};

 private:
  FilterUnit unit(int i) const {
    return {static_cast<int16_t>(i < bands.units ? 0 : -1), 0, static_cast<int16_t>(i)};
  }
};

}  // namespace im2win::cuda::fused::stem
