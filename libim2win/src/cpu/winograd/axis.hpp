// How Winograd's algorithm takes the taps along an axis of the window: in pieces of up to three that lie a
// stride apart, as those of a filter without a stride lie side by side. Each makes some of four points of
// what two outputs see of it; what all pieces make of a point is added up, as channels are, before the points
// are made outputs.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "cpu/winograd/points.hpp"
#include "problem.hpp"

namespace im2win::cpu {

constexpr int64_t kMostAxisTaps = 16;

/// Taps first, first + stride, and so on.
struct WinogradPiece {
  int64_t first;
  int taps;
};

class WinogradAxis {
 public:
  /// Of 1 to kMostAxisTaps taps, and a stride of no more.
  WinogradAxis(int64_t taps, int64_t stride);

  int64_t taps() const { return taps_; }
  int64_t stride() const { return stride_; }
  /// Inputs that two outputs see.
  int64_t size() const { return stride_ + taps_; }
  /// Inputs from two outputs to the next two.
  int64_t step() const { return 2 * stride_; }

  /// Those of most taps first: those that have a point come before those that do not have it.
  std::span<const WinogradPiece> pieces() const {
    return {pieces_.data(), static_cast<size_t>(count_)};
  }
  int most_piece_taps() const { return pieces_[0].taps; }
  /// Pieces that have a point.
  int64_t depth(int64_t point) const { return depths_[point]; }

 private:
  int64_t taps_, stride_;
  std::array<WinogradPiece, kMostAxisTaps> pieces_ = {};
  int count_ = 0;
  int64_t depths_[kAxisPoints] = {};
};

/// A piece of the rows and one of the columns, by their numbers.
struct WindowPiece {
  int64_t row_number, column_number;
  WinogradPiece row, column;
};

/// Both axes. A point is kAxisPoints * that of the rows + that of the columns; what a piece makes of it is an entry.
class WinogradWindow {
 public:
  WinogradWindow(const WinogradAxis& rows, const WinogradAxis& columns);

  const WinogradAxis& rows() const { return rows_; }
  const WinogradAxis& columns() const { return columns_; }
  int64_t taps() const { return rows_.taps() * columns_.taps(); }

  int64_t depth(int64_t point) const { return before_[point + 1] - before_[point]; }
  int64_t pieces() const { return std::ssize(rows_.pieces()) * std::ssize(columns_.pieces()); }
  WindowPiece piece(int64_t number) const;
  /// Of a piece that has the point.
  int64_t entry(int64_t point, const WindowPiece& piece) const {
    return piece.row_number * columns_.depth(point % kAxisPoints) + piece.column_number;
  }
  /// Of all points before one.
  int64_t entries_before(int64_t point) const { return before_[point]; }
  /// The products that make 2 x 2 outputs of a channel.
  int64_t entries() const { return before_[kWinogradPoints]; }

 private:
  WinogradAxis rows_, columns_;
  int64_t before_[kWinogradPoints + 1] = {};
};

inline WinogradWindow winograd_window(const Problem& problem) {
  return {{problem.r, problem.stride_h}, {problem.s, problem.stride_w}};
}

}  // namespace im2win::cpu
