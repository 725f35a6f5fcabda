// How the taps of a filter share planes of staged inputs, and how they pair up in steps. Host-only.
#pragma once

#include <utility>

#include "cuda/fused/tile.hpp"
#include "problem.hpp"

namespace im2win::cuda::fused {

/// Tap columns that are congruent modulo the stride share a plane. In pairs, those that are neighbours in it do, so that
/// it has a halo of one position; apart, each has its own, which takes more room but no halo; by slabs, also its own
/// slab.
enum class Columns { kShared, kInPairs, kApart, kBySlabs };

/// Of the taps' columns: in which plane each is, and how far into it.
struct TapColumns {
  int planes = 0;
  int origin[kMaxPlanes] = {};
  int extra = 0;   // positions of a row beyond the tile's columns
  int groups = 1;  // of columns by slabs, each with an origin; what else is said is of one
  int count = 0;   // units of a tap row, of one channel unit
  int step = 1;    // tap columns of a unit
  int stride = 1, dilation = 1;

  /// The plane and the shift within its rows of tap column `s`.
  std::pair<int, int> locate(int s) const;
  /// The first plane that has a tap that far to the right, at most so many positions from its origin; or `planes`.
  int plane_of(int x, int most) const;
  int shift(int plane, int x) const { return (x - origin[plane]) / stride; }
};

/// False where that makes too many planes or units.
bool arrange_columns(const Problem& problem, int unit_columns, Columns how, TapColumns& columns);

/// Tap rows by slabs. Rows that are congruent modulo the stride go together, and share planes; or
/// each row is a slab's, which needs no halo.
struct TapRows {
  int groups = 0, rows = 0, step = 0, full = 0;  // as in Tile
  int shift = 0;  // between neighbouring rows of a group, in plane rows

  TapRows() = default;
  TapRows(const Problem& problem, bool apart);
  int extra() const { return (rows - 1) * shift; }
};

/// Pairs all units of the tile's slabs, of both kinds of row groups, in steps. Sets what is in
/// Tile::steps beside the counts, and the order.
void pair_units(const TapColumns& columns, const TapRows& rows, Tile& tile, FilterOrder& order);

}  // namespace im2win::cuda::fused
