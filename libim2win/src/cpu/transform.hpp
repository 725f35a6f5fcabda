// The im2win transform (paper, equation 2) on the CPU.
#pragma once

#include <algorithm>
#include <cstdint>

#include "problem.hpp"

namespace im2win::cpu {

/// One row of the im2win tensor, row[x * R + r] for x in [0, padded_w): the columns that the
/// windows of output row p read, window row fastest. `channel` is input[n, c, 0, 0].
template <class Element>
void write_window_row(const Problem& problem, const Element* channel, int64_t p, Element* row) {
  const int64_t rows = problem.r;
  const int64_t left = problem.padding_left;
  const int64_t padded_w = problem.padded_w();
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t y = p * problem.stride_h + r * problem.dilation_h - problem.padding_top;
    const bool is_inside = y >= 0 && y < problem.h;
    const int64_t inside_begin = is_inside ? left : padded_w;
    const int64_t inside_end = is_inside ? left + problem.w : padded_w;
    for (int64_t x = 0; x < inside_begin; ++x) row[x * rows + r] = Element{};
    const Element* source = channel + (is_inside ? y : 0) * problem.input.stride[2];
    for (int64_t x = inside_begin; x < inside_end; ++x)
      row[x * rows + r] = source[(x - left) * problem.input.stride[3]];
    for (int64_t x = inside_end; x < padded_w; ++x) row[x * rows + r] = Element{};
  }
}

/// See im2win_transform. n > 0.
void transform(const Problem& problem, const void* input, void* output, int32_t threads);

}  // namespace im2win::cpu
