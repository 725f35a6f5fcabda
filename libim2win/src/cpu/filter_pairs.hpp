// Parts of the filter as pairs of neighbouring channels, for FilterTiles.
#pragma once

#include "cpu/kernels.hpp"
#include "cpu/pair_kernels.hpp"

namespace im2win::cpu {

/// Lines of factors, of all filters of a tile.
struct FactorLines {
  const BFloat16* source;  // of the first filter
  int64_t step;            // along a line
  int64_t filter_stride;
  int64_t channel_stride;
  int64_t count;    // of a line
  int64_t filters;  // of the tile
  int64_t width;    // filters with the padding
  BFloat16* target;
  int64_t target_step;  // in a filter of the tile, along a line
};

/// Factors of a filter that the room for them in float32 holds, of which bfloat16 is the upper half.
constexpr int64_t kRoomFactors = 64;

class FilterPairs {
 public:
  FilterPairs() : kernels_(choose_kernels<BFloat16>()), pairs_(choose_pair_kernels()) {}

  /// A line along the channels, from an even one on.
  Content pack_neighbours(const FactorLines& line) const;
  /// Lines of neighbouring channels, from an even one on: at most kRoomFactors or 2.
  Content pack_lines(const FactorLines& lines, int64_t channels) const;

 private:
  const Kernels<BFloat16>& kernels_;
  const PairKernels* pairs_;  // null where there are none: then it is of no use
};

}  // namespace im2win::cpu
