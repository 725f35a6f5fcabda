#include "cpu/winograd/axis.hpp"

#include <algorithm>

#include "checked.hpp"

namespace im2win::cpu {

WinogradAxis::WinogradAxis(int64_t taps, int64_t stride) : taps_(taps), stride_(stride) {
  for (int64_t phase = 0; phase < stride; ++phase)
    for (int64_t tap = phase; tap < taps; tap += kMostPieceTaps * stride)
      pieces_[count_++] = {
          tap, static_cast<int>(std::min<int64_t>(ceil_div(taps - tap, stride), kMostPieceTaps))};
  std::stable_sort(pieces_.begin(), pieces_.begin() + count_,
                   [](const auto& a, const auto& b) { return a.taps > b.taps; });
  for (const WinogradPiece& piece : pieces())
    for (int point = 0; point < kAxisPoints; ++point)
      depths_[point] += kHasPoint[piece.taps - 1][point];
}

WinogradWindow::WinogradWindow(const WinogradAxis& rows, const WinogradAxis& columns)
    : rows_(rows), columns_(columns) {
  for (int point = 0; point < kWinogradPoints; ++point)
    before_[point + 1] =
        before_[point] + rows.depth(point / kAxisPoints) * columns.depth(point % kAxisPoints);
}

WindowPiece WinogradWindow::piece(int64_t number) const {
  const int64_t columns = std::ssize(columns_.pieces());
  const int64_t row = number / columns, column = number % columns;
  return {row, column, rows_.pieces()[static_cast<size_t>(row)],
          columns_.pieces()[static_cast<size_t>(column)]};
}

}  // namespace im2win::cpu
