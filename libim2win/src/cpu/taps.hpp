// Which taps of a window lie inside the image.
#pragma once

#include <algorithm>
#include <cstdint>

#include "checked.hpp"

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

}  // namespace im2win::cpu
