// The filter as the im2win algorithm lays it out: group, tile of filters, tap in the order of
// WindowPanel, filter of the tile. Tiles are padded with zeros to whole vectors. Behind them stands a
// flag: 1 if all weights are finite, else 0. Where a tile is used but once it need not be laid out as a
// whole: some of its taps at a time are.
#pragma once

#include "cpu/kernels.hpp"
#include "problem.hpp"

namespace im2win::cpu {

/// Filters [begin, begin + count) of a group.
struct FilterTile {
  int64_t index;  // of the tile, over all groups
  int64_t first;  // of the problem's filters
  int64_t place;  // of the first one among those of all groups, padded
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

  int64_t tile_filters() const { return tile_filters_; }

  void pack(const Element* filter, Compute* packed, int32_t threads) const;
  bool are_finite(const Compute* packed) const { return packed[elements_] != 0; }

  /// Whether a filter's taps lie side by side, in the order of the tiles.
  bool can_pack_taps() const {
    return axes_[2].taps == problem_.window_elements() && axes_[2].target == 1;
  }
  /// Taps [begin, begin + count) of a tile. Says whether they are finite; if nothing is padded, where
  /// that does not matter, that they are.
  bool pack_taps(const Element* filter, const FilterTile& tile, int64_t begin, int64_t count,
                 Compute* packed) const;

 private:
  /// Both say of what they copy what pack_taps() says.
  bool pack_tile(const Element* filter, const FilterTile& tile, Compute* packed) const;
  bool copy_line(const Element* source, const FilterTile& tile, int64_t taps,
                 Compute* target) const;

  Problem problem_;
  const Kernels<Element>& kernels_;
  TapAxis axes_[3];  // the last one has its taps side by side in the filter, if any has
  int64_t tiles_;
  int64_t tile_filters_;
  int64_t group_filters_;
  int64_t elements_;
};

}  // namespace im2win::cpu
