// Which taps of a window lie inside the image, and what windows see of it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "checked.hpp"
#include "problem.hpp"

namespace im2win::cpu {

/// Taps [begin, end) of a window along one axis; empty where end <= begin.
struct TapRange {
  int64_t begin;
  int64_t end;
};

/// The taps of a window, `dilation` apart, whose positions from `start` on lie in [0, size).
inline TapRange taps_inside(int64_t size, int64_t taps, int64_t dilation, int64_t start) {
  return {std::max<int64_t>(0, ceil_div(-start, dilation)),
          std::min(taps, ceil_div(size - start, dilation))};
}

/// Rows, or columns, of the padded input that `outputs` outputs see.
inline int64_t seen_rows(const Problem& problem, int64_t outputs) {
  return (outputs - 1) * problem.stride_h + (problem.r - 1) * problem.dilation_h + 1;
}
inline int64_t seen_columns(const Problem& problem, int64_t outputs) {
  return (outputs - 1) * problem.stride_w + (problem.s - 1) * problem.dilation_w + 1;
}

}  // namespace im2win::cpu
