// Where the im2win algorithm reads its windows: in the input itself, if that is of the type multiplied
// and without padding, else in a panel with the padded rows that some rows of outputs see. There
// windows overlap in memory along the rows, and between the rows where their strides allow it.
//
//   panel of an input with its channels side by side: row, column, channel of the group
//   panel of pairs, of any input: the same, with a channel of zeros after an odd number of them
//   panel of any other: channel of the group, row, column
#pragma once

#include <cstdint>

#include "checked.hpp"
#include "cpu/kernels.hpp"
#include "cpu/pair_kernels.hpp"
#include "problem.hpp"

namespace im2win::cpu {

/// Whether taps are summed in the order row, column, channel, else channel, row, column: as they lie
/// in memory, or in a panel of pairs.
template <class Factor>
bool reads_channels_last(const Problem& problem) {
  return kTapFactors<Factor> > 1 || (problem.input.stride[1] == 1 && problem.c_per_group() > 1);
}

/// Taps at each place of a window.
template <class Factor>
int64_t channel_taps(const Problem& problem) {
  return ceil_div(problem.c_per_group(), kTapFactors<Factor>);
}
template <class Factor>
int64_t window_taps(const Problem& problem) {
  return channel_taps<Factor>(problem) * problem.r * problem.s;
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

template <class Element, class Factor>
class WindowPanel {
 public:
  /// For blocks of at most `block_rows` rows of outputs.
  WindowPanel(const Problem& problem, int64_t block_rows);

  /// 0 where windows are read in place.
  int64_t bytes() const { return elements_ * int64_t{sizeof(Factor)}; }
  /// Of each tap, from a window's first one on, in the order in which they are summed.
  void list_offsets(int64_t* offsets) const;

  Ahead ahead() const { return ahead_; }

  /// Copies what the block sees to the panel, if there is one. Returns what there is among pairs.
  Content fill(const Element* input, const RowBlock& block, Factor* panel) const;
  /// The first taps of the windows of outputs [q, q + count) of a row of the block.
  void find_windows(const Element* input, const RowBlock& block, const Factor* panel, int64_t row,
                    int64_t q, int64_t count, const Factor** windows) const;

 private:
  void lay_out(int64_t block_rows);
  bool has_odd_channel() const { return channels_ != problem_.c_per_group(); }
  int64_t panel_row(const RowBlock& block, int64_t row) const;
  Content fill_rows(const Element* image, int64_t y, int64_t y_step, int64_t rows,
                    Factor* target) const;
  Content examine_rows(const Element* first, int64_t stride, int64_t rows) const;
  void fill_padding(int64_t y, int64_t y_step, int64_t rows, Factor* target) const;
  void copy_rows(const Element* image, int64_t y, int64_t y_step, int64_t rows,
                 Factor* target) const;

  /// Elements between neighbours in the panel, or in the input where it is read in place.
  struct Strides {
    int64_t channel, row, column;
  };

  Problem problem_;
  const PairKernels* pairs_;  // null if taps are none
  void (*load_)(const Rows<Element, Factor>& rows);
  bool has_channels_last_;
  int64_t channels_;  // in the panel
  bool is_in_place_;
  int64_t row_step_;  // rows of the panel between those of neighbouring rows of outputs
  int64_t columns_;   // of the panel
  int64_t elements_ = 0;
  Strides strides_;
  Ahead ahead_ = {};
  int64_t tap_row_;  // between neighbouring rows of a window
};

}  // namespace im2win::cpu
