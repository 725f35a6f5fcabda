// Planes of the padded input, cut by the strides: column x of the padded rows goes to phase x % stride_w, position
// x / stride_w, and rows likewise. Then a tap reads what all outputs see of it at one offset, from row to row
// without a break; sums beyond the end of a row are what nobody reads.
//
//   panel: channel, phase of row, phase of column, row, column
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "checked.hpp"
#include "cpu/kernels.hpp"
#include "cpu/taps.hpp"

namespace im2win::cpu {

/// From row to row of a phase.
inline int64_t phase_pitch(const Problem& problem) {
  return ceil_div(seen_columns(problem, problem.q), problem.stride_w);
}

/// What some rows of outputs see of a plane.
class PhasePanel {
 public:
  PhasePanel(const Problem& problem, int64_t rows)
      : problem_(problem),
        pitch_(phase_pitch(problem)),
        phase_elements_(ceil_div(seen_rows(problem, rows), problem.stride_h) * pitch_) {}

  int64_t plane_elements() const { return problem_.stride_h * problem_.stride_w * phase_elements_; }

  /// Of a window's taps, in the order channel, row, column.
  std::vector<int64_t> offsets() const {
    const Problem& d = problem_;
    std::vector<int64_t> offsets;
    for (int64_t c = 0; c < d.c_per_group(); ++c)
      for (int64_t r = 0; r < d.r; ++r)
        for (int64_t s = 0; s < d.s; ++s) {
          const int64_t y = r * d.dilation_h;
          const int64_t x = s * d.dilation_w;
          const int64_t phase = y % d.stride_h * d.stride_w + x % d.stride_w;
          offsets.push_back(c * plane_elements() + phase * phase_elements_ +
                            y / d.stride_h * pitch_ + x / d.stride_w);
        }
    return offsets;
  }

  /// What rows [p_begin, p_end) of outputs see of a channel, to its planes. Whatever else these hold stays: the
  /// padding's zeros.
  template <class Element, class Compute>
  void load(const Kernels<Element>& kernels, const Element* plane, int64_t p_begin, int64_t p_end,
            Compute* target) const {
    const Problem& d = problem_;
    const int64_t top = p_begin * d.stride_h - d.padding_top;  // y of the panel's first row
    const int64_t bottom = std::min(top + seen_rows(d, p_end - p_begin), d.h);
    const int64_t right = std::min(seen_columns(d, d.q) - d.padding_left, d.w);
    for (int64_t phase_y = 0; phase_y < d.stride_h; ++phase_y) {
      const int64_t first_row = std::max<int64_t>(ceil_div(-top - phase_y, d.stride_h), 0);
      const int64_t y = top + phase_y + first_row * d.stride_h;
      for (int64_t phase_x = 0; phase_x < d.stride_w; ++phase_x) {
        const int64_t first_column =
            std::max<int64_t>(ceil_div(d.padding_left - phase_x, d.stride_w), 0);
        const int64_t x = phase_x + first_column * d.stride_w - d.padding_left;
        if (y >= bottom || x >= right) continue;
        kernels.load({plane + y * d.input.stride[2] + x * d.input.stride[3],
                      d.stride_h * d.input.stride[2], d.stride_w * d.input.stride[3],
                      target + (phase_y * d.stride_w + phase_x) * phase_elements_ +
                          first_row * pitch_ + first_column,
                      pitch_, ceil_div(bottom - y, d.stride_h), ceil_div(right - x, d.stride_w)});
      }
    }
  }

 private:
  Problem problem_;
  int64_t pitch_;
  int64_t phase_elements_;
};

}  // namespace im2win::cpu
