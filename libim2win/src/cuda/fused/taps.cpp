#include "cuda/fused/taps.hpp"

#include <algorithm>
#include <climits>
#include <numeric>

#include "checked.hpp"

namespace im2win::cuda::fused {
namespace {

struct PlacedUnit {
  int offset;  // in shared memory, in units
  FilterUnit filter;
};

/// Of a position's unit in a slab; of a unit's first row, where rows are of pixels.
int offset_of(const Tile& tile, int position, int unit) {
  if (tile.pixel_rows) return unit * tile.unit_channels * kRowUnits;
  return tile.boxed() ? position * tile.row_units + unit : unit * tile.positions_pitch + position;
}

/// All units of a slab with `rows` tap rows, in the order of their offsets, so that a step's second
/// unit never lies before its first; an odd one is followed by itself, with no filter. Where windows come from lines, tap by
/// tap.
void place_units(const Tile& tile, const TapColumns& columns, int row_shift, int rows,
                 PlacedUnit (&placed)[2 * kMaxSteps + 1]) {
  int count = 0;
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < columns.count; ++i) {
      const int s = i * columns.step;
      const auto [plane, shift] = columns.locate(s);
      const int position =
          plane * tile.plane_positions + row * row_shift * tile.images * tile.pitch + shift;
      for (int unit = 0; unit < tile.units; ++unit)
        placed[count++] = {
            tile.from_lines ? tile.place_in_lines(plane, row * row_shift, unit)
                            : offset_of(tile, position, unit),
            {static_cast<int16_t>(row), static_cast<int16_t>(s), static_cast<int16_t>(unit)}};
    }
  }
  if (tile.from_lines) return;
  std::stable_sort(placed, placed + count,
                   [](const PlacedUnit& a, const PlacedUnit& b) { return a.offset < b.offset; });
  if (count % 2 != 0) placed[count] = {placed[count - 1].offset, {-1, 0, 0}};
}

}  // namespace

std::pair<int, int> TapColumns::locate(int s) const {
  const int plane = plane_of(s * dilation, extra);
  return {plane, shift(plane, s * dilation)};
}

int TapColumns::plane_of(int x, int most) const {
  int plane = 0;
  while (plane < planes && ((x - origin[plane]) % stride != 0 || shift(plane, x) > most)) ++plane;
  return plane;
}

bool arrange_columns(const Problem& problem, int unit_columns, Columns how, TapColumns& columns) {
  const int most = how == Columns::kShared ? INT_MAX : how == Columns::kInPairs ? 1 : 0;
  columns.step = unit_columns;
  columns.stride = static_cast<int>(problem.stride_w);
  columns.dilation = static_cast<int>(problem.dilation_w);
  const int s_count = static_cast<int>(problem.s);
  columns.count = static_cast<int>(ceil_div(s_count, unit_columns));
  if (columns.count > 2 * kMaxSteps) return false;  // more than a slab's steps have units
  for (int s = 0; s < s_count; s += unit_columns) {
    const int x = s * columns.dilation;
    const int plane = columns.plane_of(x, most);
    if (plane == kMaxPlanes) return false;
    if (plane == columns.planes)
      columns.origin[columns.planes++] = how == Columns::kShared ? x % columns.stride : x;
    columns.extra = std::max(columns.extra, columns.shift(plane, x));
  }
  if (how == Columns::kBySlabs) {
    columns.groups = columns.count;
    columns.planes = columns.count = 1;
  }
  return true;
}

TapRows::TapRows(const Problem& problem, bool apart) {
  const int r = static_cast<int>(problem.r);
  const int stride = static_cast<int>(problem.stride_h);
  const int dilation = static_cast<int>(problem.dilation_h);
  step = apart ? 1 : stride / std::gcd(stride, dilation);
  groups = apart ? r : std::min(step, r);
  rows = apart ? 1 : static_cast<int>(ceil_div(r, step));
  full = apart ? r : r - (rows - 1) * groups;
  shift = static_cast<int>(int64_t{step} * dilation / stride);
}

void pair_units(const TapColumns& columns, const TapRows& rows, Tile& tile, FilterOrder& order) {
  for (int kind = 0; kind < 2; ++kind) {
    PlacedUnit placed[2 * kMaxSteps + 1];
    place_units(tile, columns, rows.shift, rows.rows - kind, placed);
    Steps& steps = tile.steps[kind];
    for (int i = 0; i < steps.count; ++i) {
      const PlacedUnit& first = placed[2 * i];
      const PlacedUnit& second = placed[2 * i + 1];
      const int further = tile.pixel_rows ? tile.pixel_block() : second.offset - first.offset;
      steps.step[i] = {static_cast<uint16_t>(first.offset), static_cast<uint16_t>(further)};
      order.unit[kind][i][0] = first.filter;
      order.unit[kind][i][1] = second.filter;
    }
  }
}

}  // namespace im2win::cuda::fused
