// The filter as the im2win algorithm lays it out: group, tile of filters, tap in the order of
// WindowPanel, filter of the tile. Tiles are padded with zeros to whole vectors. Behind them stands a
// flag: 1 if all weights are finite, else 0.
#pragma once

#include "cpu/kernels.hpp"
#include "problem.hpp"

namespace im2win::cpu {

/// Filters [begin, begin + count) of a group.
struct FilterTile {
  int64_t begin;
  int64_t count;
  int64_t vectors;
  int64_t width;   // filters with the padding
  int64_t offset;  // of its first tap in the packed filter
};

/// Taps along an axis of the window.
struct TapAxis {
  int64_t taps;
  int64_t source;  // elements between neighbours in the filter
  int64_t target;  // taps between neighbours in the tile
};

template <class Element>
class FilterTiles {
 public:
  using Compute = typename ComputeOf<Element>::Type;

  explicit FilterTiles(const Problem& problem);

  int64_t bytes() const { return (elements_ + 1) * int64_t{sizeof(Compute)}; }
  int64_t per_group() const { return tiles_; }
  /// Filters of a group, padded.
  int64_t group_filters() const { return group_filters_; }
  FilterTile tile(int64_t group, int64_t index) const;

  void pack(const Element* filter, Compute* packed, int32_t threads) const;
  bool are_finite(const Compute* packed) const { return packed[elements_] != 0; }

 private:
  /// Whether all of it is finite; true where that does not matter, as nothing is padded.
  bool pack_tile(const Element* filter, const FilterTile& tile, Compute* packed) const;

  Problem problem_;
  const Kernels<Element>& kernels_;
  TapAxis axes_[3];  // the last one has its taps side by side in the filter, if any has
  int64_t tiles_;
  int64_t tile_filters_;
  int64_t group_filters_;
  int64_t elements_;
};

}  // namespace im2win::cpu
