// Where the im2win algorithm reads its windows: in the input itself, if that is of the type computed
// in and without padding, else in a panel with the padded rows that some rows of outputs see. There
// windows overlap in memory along the rows, and between the rows where their strides allow it.
//
//   panel of an input with its channels side by side: row, column, channel of the group
//   panel of any other: channel of the group, row, column
#pragma once

#include <cstdint>

#include "cpu/kernels.hpp"
#include "problem.hpp"

namespace im2win::cpu {

/// Whether taps are summed in the order row, column, channel, else channel, row, column: as they lie
/// in memory.
inline bool reads_channels_last(const Problem& problem) {
  return problem.input.stride[1] == 1 && problem.c_per_group() > 1;
}

/// Rows of outputs [begin, end) of a group, counted over all images, (n, p).
struct RowBlock {
  int64_t group;
  int64_t begin, end;
};

/// What lies so far from the first window of a register tile follows its windows in memory, and is
/// to be prefetched: of each tap, the element at `step` times its offset. No step: nothing.
struct Ahead {
  int64_t distance;
  int64_t step;
};

template <class Element>
class WindowPanel {
 public:
  using Compute = typename ComputeOf<Element>::Type;

  /// For blocks of at most `block_rows` rows of outputs.
  WindowPanel(const Problem& problem, int64_t block_rows);

  /// 0 where windows are read in place.
  int64_t bytes() const { return elements_ * int64_t{sizeof(Compute)}; }
  /// Of each tap, from a window's first one on, in the order in which they are summed.
  void list_offsets(int64_t* offsets) const;

  Ahead ahead() const { return ahead_; }

  /// Copies what the block sees to the panel, if there is one.
  void fill(const Element* input, const RowBlock& block, Compute* panel) const;
  /// The first taps of the windows of outputs [q, q + count) of a row of the block.
  void find_windows(const Element* input, const RowBlock& block, const Compute* panel, int64_t row,
                    int64_t q, int64_t count, const Compute** windows) const;

 private:
  void lay_out(int64_t block_rows);
  int64_t panel_row(const RowBlock& block, int64_t row) const;
  void fill_rows(const Element* image, int64_t y, int64_t y_step, int64_t rows,
                 Compute* target) const;
  void fill_padding(int64_t y, int64_t y_step, int64_t rows, Compute* target) const;
  void copy_rows(const Element* image, int64_t y, int64_t y_step, int64_t rows,
                 Compute* target) const;

  /// Elements between neighbours in the panel, or in the input where it is read in place.
  struct Strides {
    int64_t channel, row, column;
  };

  Problem problem_;
  const Kernels<Element>& kernels_;
  bool is_in_place_;
  bool has_channels_last_;
  int64_t row_step_;  // rows of the panel between those of neighbouring rows of outputs
  int64_t columns_;   // of the panel
  int64_t elements_ = 0;
  Strides strides_;
  Ahead ahead_ = {};
  int64_t tap_row_;  // between neighbouring rows of a window
};

}  // namespace im2win::cpu
